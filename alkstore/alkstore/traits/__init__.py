"""The traits: the contract of each mechanism, one noun a file.

Each is a `typing.Protocol`. An engine implements them; applications type against them.
"""

from __future__ import annotations

from alkstore.traits.delivery import Delivery, Handler
from alkstore.traits.job_handle import JobHandle
from alkstore.traits.lock import LockHandle
from alkstore.traits.outbox import Outbox
from alkstore.traits.queue import Queue
from alkstore.traits.runner import Runner
from alkstore.traits.scheduler import Scheduler
from alkstore.traits.store import Store
from alkstore.traits.wakes import Listener

__all__ = [
    "Delivery",
    "Handler",
    "JobHandle",
    "Listener",
    "LockHandle",
    "Outbox",
    "Queue",
    "Runner",
    "Scheduler",
    "Store",
]
