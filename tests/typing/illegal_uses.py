"""Uses of the public names that every type checker must refuse. Checked, never run.

Each line says which error each checker gives. A checker that finds nothing wrong with a line
complains about the comment that nothing needs.
"""

from __future__ import annotations

from datetime import datetime

import alkstore_postgres
from alkstore import JobHandle, QueueOptions, Store
from alkstore.memory import MemoryStore
from alkstore_postgres import PostgresStore


def options(store: Store) -> None:
    """Unknown names and wrong types of options."""
    queue = store.queue("mail")
    queue.enqueue(1, colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    queue.enqueue(1, delay="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    queue.enqueue(1, 5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    queue.enqueue(1, run_at="2030-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    queue.enqueue_many(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.queue("mail", priority=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.queue("mail", visibility_timeout=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.schedule("s", "@every 1h", "mail", 1, catch_up="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.schedule("s", "@every 1h", "mail")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    stamps: QueueOptions = {"max_attempts": "3"}  # type: ignore[typeddict-item]  # pyright: ignore[reportAssignmentType]
    store.queue("mail", **stamps)
    alkstore_postgres.open("", sizes=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    alkstore_postgres.open("", codec=str)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MemoryStore(clock=datetime.now)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    PostgresStore("postgresql:///app")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def names(store: Store) -> None:
    """A name is a text."""
    store.queue(b"mail")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.outbox(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.notify(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def results(store: Store, handle: JobHandle) -> None:
    """What may be missing has to be looked at first."""
    store.try_lock("door", 5).release()  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    store.get_job(1).payload  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    store.listen("news").wait().channel  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    handle.id = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    handle.retry()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    handle.nack()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def callables(store: Store) -> None:
    """A handler takes a handle."""

    def nothing() -> None: ...

    def number(handle: int) -> None: ...

    store.start_worker("mail", nothing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.start_worker("mail", number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.outbox("mail").run_once("worker", "delivery")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def waits(store: Store) -> None:
    """A stop is a token, and a leader needs one."""
    store.run_schedules()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.run_schedules(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.lock("door", 5, stop=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class HalfAStore:
    """It has no schedules, and much else is missing."""

    def queue(self, name: str) -> object:
        """Return something."""
        return name


def half() -> Store:
    """An engine has to be whole."""
    return HalfAStore()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
