"""The network falls silent under one statement of the leader loop: nothing waits for it for long.

The user's story: a firewall forgets a connection, a proxy stops forwarding. Nothing is closed and
nothing is refused, so that neither keepalives nor the server end the call. Whoever leads, or
stands by, lets go of it within a time that comes from the lease's TTL, says so, and goes on when
the network does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import alkstore_postgres
from alkstore import LeadershipLost
from alkstore.runners import scheduler as scheduler_runner
from alkstore_postgres import PostgresStore
from alkstore_postgres.scheduler import leader
from alkstore_postgres.scheduler.leader import LeaderLoop
from tests.support.leading import Leading, owner_of
from tests.support.proxy import Proxy
from tests.support.schedules import ScheduleTable
from tests.support.timing import in_time
from tests.support.waiting import wait_until

TTL = 1.0
CUT = 1.25 * TTL
"""After how many seconds a call is let go at the latest."""

SLACK = 2.0
"""What a busy test machine may add, in seconds; without a limit it would be for ever."""

STATEMENTS = {
    "acquire": b"WITH free AS",
    "renew": b"renewed AS",
    "begin": b"BEGIN",
    "limits": b"idle_in_transaction_session_timeout",
    "prove": b"FOR KEY SHARE SKIP LOCKED",
    "due": b"statement_timestamp(), s.ctid",
    "commit": b"COMMIT",
    "seconds_left": b"THEN GREATEST(EXTRACT(epoch",
    "release": b"SET owner = NULL",
}
"""What the statements of a loop are known by, in the order in which they are sent."""


class SilentAt:
    """A way to the server that falls silent, for good, as a certain statement is sent.

    Args:
        conninfo: Where the server is.

    Attributes:
        proxy: The way.
        statement: The statement, by its name in `STATEMENTS`; ``None``: none.
    """

    def __init__(self, conninfo: str) -> None:
        self.statement: str | None = None
        self.proxy = Proxy(conninfo, self._observe)

    @property
    def silent(self) -> bool:
        """Whether it has come to that."""
        return self.proxy.silent

    def speak(self) -> None:
        """Let connections through again; what was kept back is lost."""
        self.statement = None
        self.proxy.revive()

    def _observe(self, _connection: int, kind: bytes, body: bytes) -> None:
        if self.statement and kind in {b"P", b"Q"} and STATEMENTS[self.statement] in body:
            self.proxy.stall()


@pytest.fixture
def way(conninfo: str) -> Iterator[SilentAt]:
    """Return a way to the server."""
    way = SilentAt(conninfo)
    with way.proxy:
        yield way


@pytest.fixture
def through(way: SilentAt, store: PostgresStore, schema: str) -> Iterator[PostgresStore]:
    """Return a store that goes this way; each statement goes with its text."""
    del store  # has made the schema
    with alkstore_postgres.open(
        way.proxy.conninfo, schema, timeout=30, prepare_threshold=None
    ) as through:
        yield through


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the leases of schedulers end soon."""
    init = LeaderLoop.__init__
    monkeypatch.setattr(init, "__kwdefaults__", {**(init.__kwdefaults__ or {}), "ttl": TTL})


def loops() -> list[threading.Thread]:
    """Return the threads of leader loops."""
    return [one for one in threading.enumerate() if one.name == "alkstore leader"]


@pytest.mark.parametrize("statement", list(STATEMENTS)[:-2])
def test_no_statement_of_the_loop_waits_longer_than_the_lease_holds(
    way: SilentAt, through: PostgresStore, table: ScheduleTable, statement: str
) -> None:
    through.schedule("s", "@every 1h", "q", 1)
    table.shift("s", -1)
    way.statement = statement
    leading = Leading(through, ttl=TTL).start()
    try:
        wait_until(lambda: way.silent)
        wait_until(lambda: leading.failures, CUT + SLACK)
        way.speak()
        wait_until(lambda: table.jobs() == 1)
        assert leading.running
    finally:
        way.speak()
        leading.end()


def test_a_leader_that_lost_its_lease_does_not_wait_for_how_long_the_other_has_it(
    way: SilentAt, through: PostgresStore, table: ScheduleTable
) -> None:
    leading = Leading(through, ttl=TTL).lead()
    way.statement = "seconds_left"
    table.run(
        "UPDATE {locks} SET owner = 'another', token = token + 1,"
        " expires_at = now() + interval '40 s'"
    )
    error = leading.outcome(2 * TTL + CUT + SLACK)
    way.speak()
    assert isinstance(error, LeadershipLost)
    assert error.retry_after is None


def test_a_stopped_loop_whose_release_gets_no_answer_ends_by_itself(
    way: SilentAt, through: PostgresStore, table: ScheduleTable
) -> None:
    """Its caller has left long before, and nobody but it knows of its connection."""

    def stop_it() -> float:
        leading = Leading(through, ttl=TTL).lead()
        way.statement = "release"
        took = leading.end()
        assert leading.left_behind, "its caller has waited for it"
        wait_until(lambda: way.silent)
        wait_until(lambda: not loops(), CUT + SLACK)
        assert owner_of(table) is not None, "the release never came through"
        way.speak()
        table.run("DELETE FROM {locks}")
        return took

    in_time(stop_it, 0.15)


@pytest.mark.usefixtures("short_lease")
def test_a_standby_behind_a_silent_network_says_so(
    way: SilentAt, through: PostgresStore, open_store: Callable[..., PostgresStore]
) -> None:
    """Within two and a half TTLs: it asks once in a TTL, and lets go a TTL and a quarter later."""
    leading = open_store().start_scheduler()
    wait_until(lambda: leading.state == "leading")
    standby = through.start_scheduler()
    wait_until(lambda: standby.state == "standby")
    way.proxy.stall()
    wait_until(lambda: standby.state == "backing-off", 2.5 * TTL + SLACK)
    assert standby.last_error is not None
    assert leading.state == "leading"
    way.speak()
    wait_until(lambda: standby.state == "standby")
    assert leading.state == "leading"


def test_the_real_lease_is_short_enough_for_what_is_documented() -> None:
    """A standby is `backing-off` 25 s after its network fell silent at the latest."""
    assert leader.TTL + scheduler_runner._JITTER + 1.25 * leader.TTL <= 25
