"""python-pq: each task in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bench.contestants.base import Contestant, Enqueue, Handle, override

_pq: Any = import_module("pq")
_PROCESSES = 8
_WORKER = "import sys; from bench.contestants import pq_peer as p; p.serve(*sys.argv[1:])"
_told: list[int] = []


def bench_job(number: int) -> None:
    """Tell the process of the contestant."""
    os.write(_told[0], b"%d\n" % number)


def serve(url: str, told: str) -> None:
    """Run its worker until it is told to end (SIGTERM), without a line of log for each task."""
    _told[:] = [int(told)]
    import_module("loguru").logger.disable("pq")
    with _pq.PQ(url) as pq:
        pq.run_worker(concurrency=_PROCESSES)


class Pq(Contestant):
    """Its worker in a process whose main thread is its own, with 8 tasks at once."""

    has_bulk = False

    @override
    def setup(self) -> None:
        """Migrate."""
        with _pq.PQ(self.url) as pq:
            pq.run_db_migrations()

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Enqueue tasks."""
        with _pq.PQ(self.url) as pq:
            yield lambda number: pq.enqueue(bench_job, number)

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run its worker in a process, and hear from its tasks through a pipe."""
        reader, writer = os.pipe()
        command = [sys.executable, "-c", _WORKER, self.url, str(writer)]
        process = subprocess.Popen(command, pass_fds=[writer])
        os.close(writer)

        def end() -> None:
            stop.wait()
            process.terminate()

        threading.Thread(target=end, daemon=True).start()
        with os.fdopen(reader, encoding="ascii") as lines:
            for line in lines:
                handle(int(line))
        process.wait()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Pq(url, options)
