"""dramatiq with dramatiq-postgres."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dramatiq
import psycopg
from dramatiq_postgres import PostgresBroker, generate_init_sql

from bench.contestants.base import Contestant, Enqueue, Handle, override


class Dramatiq(Contestant):
    """Its worker with its usual 8 threads."""

    has_bulk = False

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        super().__init__(url, options)
        self._broker = PostgresBroker(url=url)
        self._handle: Handle = lambda _number: None

        def job(number: int) -> None:
            self._handle(number)

        self._actor: Any = dramatiq.actor(
            job, actor_name="job", queue_name="bench", broker=self._broker
        )

    @override
    def setup(self) -> None:
        """Make its tables."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(generate_init_sql())

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Send messages."""
        yield self._actor.send

    @override
    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Send them one by one: there is no other way."""
        for number in numbers:
            self._actor.send(number)

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run its worker."""
        self._handle = handle
        worker = dramatiq.Worker(self._broker, worker_threads=8)
        worker.start()
        stop.wait()
        worker.stop(timeout=5_000)


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Dramatiq(url, options)
