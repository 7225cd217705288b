"""dbos: durable workflows, on one of its queues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bench.contestants.async_peer import CONCURRENCY
from bench.contestants.base import Contestant, Enqueue, Handle, override

_dbos: Any = import_module("dbos")
_POLL = 0.05
_NAME = "bench"
_handles: list[Handle] = []


def bench_job(number: int) -> None:
    """Tell the handler of this process."""
    for handle in _handles:
        handle(number)


_dbos.DBOS.workflow(name="job")(bench_job)


class Dbos(Contestant):
    """Its client, and an executor with a poll every 50 ms: by itself it polls each second."""

    has_bulk = False

    @contextmanager
    def _launched(self) -> Iterator[None]:
        _dbos.DBOS(
            config={
                "name": _NAME,
                "system_database_url": self.url,
                "application_version": _NAME,
                "log_level": "ERROR",
            }
        )
        _dbos.DBOS.launch()
        try:
            _dbos.DBOS.register_queue(
                "bench", worker_concurrency=CONCURRENCY, polling_interval_sec=_POLL
            )
            yield
        finally:
            _dbos.DBOS.destroy(workflow_completion_timeout_sec=5)

    @override
    def setup(self) -> None:
        """Launch it once: that makes its tables."""
        with self._launched():
            pass

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Enqueue workflows."""
        client = _dbos.DBOSClient(system_database_url=self.url, application_name=_NAME)
        try:
            yield lambda number: client.enqueue(
                {"queue_name": "bench", "workflow_name": "job"}, number
            )
        finally:
            client.destroy()

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run an executor."""
        _handles[:] = [handle]
        with self._launched():
            stop.wait()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Dbos(url, options)
