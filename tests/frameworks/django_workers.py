"""Tests of Django for the shop of the page "Test your application"; its test writes them there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from django.db import connection  # type: ignore[import-untyped]
from django.test import TransactionTestCase  # type: ignore[import-untyped]
from shop.jobs import closing_connections, store  # type: ignore[import-not-found]
from shop.models import Order  # type: ignore[import-not-found]

from alkstore import JobHandle

JOBS = 200
THREADS = 8
LIMIT = 30.0


def eventually(condition: Callable[[], bool]) -> None:
    """Fail when *condition* does not hold in time: a backend ends after its client has left."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def alive(pids: set[int]) -> set[int]:
    """Return which of these backends are there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [list(pids)])
        return {pid for (pid,) in cursor.fetchall()}


class WorkersOfModels(TransactionTestCase):  # type: ignore[misc]
    """A worker whose handlers use models, in a test that commits."""

    def setUp(self) -> None:
        """Look at the backends that handlers are served by."""
        self.guard = threading.Lock()
        self.served_by: set[int] = set()
        self.ended = 0

    def tearDown(self) -> None:
        """Leave a database that can be dropped."""
        store().close()
        store.cache_clear()
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA alkstore CASCADE")

    def use_models(self, _: JobHandle) -> None:
        """Write a row, and tell by whom that was done."""
        Order.objects.create(email="ada@example.org")
        with self.guard:
            self.served_by.add(connection.connection.info.backend_pid)

    def test_no_connection_of_a_handler_is_left(self) -> None:
        """Many threads, many jobs, one in ten of which fails."""

        @closing_connections  # type: ignore[untyped-decorator]
        def handle(job: JobHandle) -> None:
            self.use_models(job)
            if job.payload % 10 == 0:
                raise ValueError(job.payload)

        self.work_on(handle, JOBS, THREADS)
        assert Order.objects.count() == JOBS
        assert len(store().queue("counts").dead(limit=JOBS)) == JOBS // 10
        assert len(self.served_by) >= 1
        eventually(lambda: not alive(self.served_by))

    def test_the_job_after_one_whose_connection_was_cut_has_a_new_one(self) -> None:
        """Both run in the one thread of the worker."""

        @closing_connections  # type: ignore[untyped-decorator]
        def handle(job: JobHandle) -> None:
            self.use_models(job)
            if job.payload == 0:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        self.work_on(handle, 2, 1)
        (letter,) = store().queue("counts").dead(limit=2)
        assert letter.payload == 0
        assert len(self.served_by) == 2
        eventually(lambda: not alive(self.served_by))

    def work_on(self, handler: Callable[[JobHandle], None], jobs: int, threads: int) -> None:
        """Have a worker do that many jobs, and stop it."""
        queue = store().queue("counts", max_attempts=1)
        queue.enqueue_many(range(jobs))
        worker = store().start_worker("counts", handler, concurrency=threads)
        eventually(lambda: queue.size() == 0)
        assert worker.stop(timeout=LIMIT)
