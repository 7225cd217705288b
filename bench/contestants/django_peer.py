"""django-task-psql: a backend of Django's tasks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from bench.contestants.base import Contestant, Enqueue, Handle, override

_django: Any = import_module("django")
_settings: Any = import_module("django.conf").settings
_call_command: Any = import_module("django.core.management").call_command
_connections: Any = import_module("django.db").connections
_task: Any = import_module("django.tasks").task
_THREADS = 8
_PARTS = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
_handles: list[Handle] = []


def bench_job(number: int) -> None:
    """Tell the handler of this process."""
    for handle in _handles:
        handle(number)


class DjangoTasks(Contestant):
    """Its worker with 8 threads, and Django's pool, which gives each task a connection."""

    has_bulk = False

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        super().__init__(url, options)
        parts = conninfo_to_dict(url)
        _settings.configure(
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "OPTIONS": {"pool": {"min_size": 1, "max_size": _THREADS + 2}},
                    **{name: str(parts.get(part, "")) for name, part in _PARTS.items()},
                }
            },
            INSTALLED_APPS=["django_task_psql"],
            TASKS={
                "default": {
                    "BACKEND": "django_task_psql.backend.PostgresBackend",
                    "QUEUES": ["bench"],
                    "OPTIONS": {"max_attempts": 3},
                }
            },
            USE_TZ=True,
        )
        _django.setup()
        self._task: Any = _task(queue_name="bench")(bench_job)

    @override
    def setup(self) -> None:
        """Migrate."""
        _call_command("migrate", verbosity=0)

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Enqueue tasks, each thread on a connection of its own."""
        try:
            yield self._task.enqueue
        finally:
            _connections.close_all()

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run its worker in a thread of its own, where it cannot set handlers for signals."""
        module: Any = import_module("django_task_psql.worker")
        module.signal = SimpleNamespace(
            signal=lambda *_: None, SIGTERM=signal.SIGTERM, SIGINT=signal.SIGINT
        )
        _handles[:] = [handle]
        worker = module.Worker(["bench"], concurrency=_THREADS)

        def run() -> None:
            try:
                worker.run()
            finally:
                _connections.close_all()

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and not stop.wait(0.05):
            pass
        worker.stop()
        thread.join()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return DjangoTasks(url, options)
