"""Supervised background threads, the same for every engine.

A runner is built over the traits alone: give a `WorkerRunner` any queue, an
`OutboxRunner` the queue behind an outbox, a `SchedulerRunner` the two calls that lead and
stand by. `Supervisor` is the machine that they share; `StartedRunners` are those of a store.
"""

from __future__ import annotations

from alkstore.runners.outbox import OutboxRunner
from alkstore.runners.scheduler import SchedulerRunner
from alkstore.runners.started import StartedRunners
from alkstore.runners.supervisor import Supervisor
from alkstore.runners.worker import WorkerRunner

__all__ = ["OutboxRunner", "SchedulerRunner", "StartedRunners", "Supervisor", "WorkerRunner"]
