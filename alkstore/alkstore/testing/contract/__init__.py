"""The contract suite: what every engine promises, as classes of tests for pytest.

An engine's author subclasses `EngineContract` with one fixture, ``engine``, that returns a fresh
`alkstore.testing.EngineHarness` and closes it afterwards. The parts can be subclassed one by
one while an engine grows. This package needs pytest; the rest of alkstore does not.
"""

from __future__ import annotations

from alkstore.testing.contract.base import Contract
from alkstore.testing.contract.boundaries import BoundariesContract
from alkstore.testing.contract.claims import ClaimsContract
from alkstore.testing.contract.closing import ClosingContract
from alkstore.testing.contract.dead_letters import DeadLettersContract
from alkstore.testing.contract.going_clock import GoingClockContract
from alkstore.testing.contract.leader import LeaderContract
from alkstore.testing.contract.locks import LocksContract
from alkstore.testing.contract.names import NamesContract
from alkstore.testing.contract.options import OptionsContract
from alkstore.testing.contract.outbox import OutboxContract
from alkstore.testing.contract.payloads import PayloadsContract
from alkstore.testing.contract.queues import QueuesContract
from alkstore.testing.contract.registration import RegistrationContract
from alkstore.testing.contract.runners import RunnersContract
from alkstore.testing.contract.settling import SettlingContract
from alkstore.testing.contract.stop_tokens import StopTokensContract
from alkstore.testing.contract.transactions import TransactionsContract
from alkstore.testing.contract.waiting import WaitingContract
from alkstore.testing.contract.wakes import WakesContract

__all__ = [
    "BoundariesContract",
    "ClaimsContract",
    "ClosingContract",
    "Contract",
    "DeadLettersContract",
    "EngineContract",
    "GoingClockContract",
    "LeaderContract",
    "LocksContract",
    "NamesContract",
    "OptionsContract",
    "OutboxContract",
    "PayloadsContract",
    "QueuesContract",
    "RegistrationContract",
    "RunnersContract",
    "SettlingContract",
    "StopTokensContract",
    "TransactionsContract",
    "WaitingContract",
    "WakesContract",
]


class EngineContract(
    NamesContract,
    PayloadsContract,
    OptionsContract,
    QueuesContract,
    ClaimsContract,
    SettlingContract,
    DeadLettersContract,
    WaitingContract,
    LocksContract,
    RegistrationContract,
    BoundariesContract,
    LeaderContract,
    OutboxContract,
    TransactionsContract,
    WakesContract,
    StopTokensContract,
    RunnersContract,
    ClosingContract,
):
    """The whole suite, except `GoingClockContract`, which needs a clock that goes on."""
