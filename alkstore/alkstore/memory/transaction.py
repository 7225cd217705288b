"""The memory engine's transactions: what is written in one is kept back until it commits."""

from __future__ import annotations

from typing import Any

from alkstore._typing import override
from alkstore.errors import InvalidConnection, NoTransaction
from alkstore.memory.data import JobRow, MemoryData


class MemoryTransaction:
    """Lent by `MemoryStore.transaction`, for the ``*_tx`` calls of stores with the same tables.

    Args:
        data: The tables that it writes to.
    """

    def __init__(self, data: MemoryData) -> None:
        self.data = data
        self._jobs: list[JobRow] = []
        self._wakes: dict[str, None] = {}
        self._ended = False

    def add_job(self, job: JobRow) -> None:
        """Store *job*, and wake its queue, at the commit."""
        with self.data.lock:
            self._check_open()
            self._jobs.append(job)
            self._wakes[job.queue] = None

    def add_wake(self, name: str) -> None:
        """Wake *name* at the commit."""
        with self.data.lock:
            self._check_open()
            self._wakes[name] = None

    @property
    def has_ended(self) -> bool:
        """Whether it was committed or rolled back."""
        return self._ended

    def commit(self) -> None:
        """Write everything at once, and end.

        The end of the block of `MemoryStore.transaction` does it, unless the transaction has
        ended before.

        Raises:
            NoTransaction: It has ended already.
        """
        with self.data.lock:
            self._check_open()
            self._ended = True
            self.data.jobs.update((job.id, job) for job in self._jobs)
            for name in self._wakes:
                self.data.wakes.wake(name)

    def rollback(self) -> None:
        """Drop everything, and end; the ids that were drawn are not given again.

        Raises:
            NoTransaction: It has ended already.
        """
        with self.data.lock:
            self._check_open()
            self._ended = True

    def _check_open(self) -> None:
        if self._ended:
            msg = "the transaction has ended; use it inside the block of store.transaction()"
            raise NoTransaction(msg)

    @override
    def __repr__(self) -> str:
        """Show how it stands."""
        return f"<{type(self).__name__} {'ended' if self._ended else 'open'}>"


def join(tx: Any, data: MemoryData) -> MemoryTransaction:
    """Return *tx* when it is a transaction over *data*.

    Raises:
        InvalidConnection: It is something else, or belongs to other tables.
    """
    if not isinstance(tx, MemoryTransaction):
        given = f"the class {tx.__qualname__} itself" if isinstance(tx, type) else type(tx).__name__
        msg = f"tx must be what store.transaction() lends, not {given}"
        raise InvalidConnection(msg)
    if tx.data is not data:
        msg = "tx belongs to a memory store with other tables; use that store, or a sibling of it"
        raise InvalidConnection(msg)
    return tx
