"""A small application as users have them: one store, a scheduler and a worker in web processes.

Told by its environment: `APP_URL` and `APP_SCHEMA` say where the store is, `APP_START` when the
runners start: at ``import``, or in a ``hook`` of the server after the fork.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import alkstore_postgres
from alkstore.traits import JobHandle, Runner

store = alkstore_postgres.open(
    os.environ["APP_URL"], os.environ["APP_SCHEMA"], migrate=False, max_size=3
)
runners: dict[str, Runner] = {}


def session() -> int:
    """Return which server process serves the store here."""
    with store.transaction() as connection:
        number: int = connection.info.backend_pid
        return number


def start_runners() -> None:
    """Start what runs in the background."""
    runners["scheduler"] = store.start_scheduler()
    runners["worker"] = store.start_worker("mail", send)


def send(job: JobHandle) -> None:
    """Handle a job: tell who did it."""
    store.queue("sent").enqueue({"mail": job.payload, "pid": os.getpid()})


def application(
    environment: dict[str, Any], start_response: Callable[..., object]
) -> Iterable[bytes]:
    """Answer ``/enqueue``, and anything else with what there is to know of this process."""
    time.sleep(0.02)  # so that several requests go to several processes
    if environment["PATH_INFO"] == "/enqueue":
        answer: object = store.queue("mail").enqueue("hello")
    else:
        answer = about()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def about() -> dict[str, Any]:
    """Return what there is to know of this process."""
    return {
        "pid": os.getpid(),
        "importer": IMPORTER,
        "session": session(),
        "importer session": IMPORTER_SESSION,
        "runners": {
            name: {"state": runner.state, "reason": runner.health().reason}
            for name, runner in runners.items()
        },
    }


IMPORTER = os.getpid()
IMPORTER_SESSION = session()
# uWSGI forks with the interpreter's lock as it is: the threads of the pool that was just used have
# to sleep by then.
time.sleep(0.5)
if os.environ["APP_START"] == "import":
    start_runners()
elif "uWSGI" in os.environ.get("APP_SERVER", ""):
    import uwsgi  # type: ignore[import-untyped]

    uwsgi.post_fork_hook = start_runners
