"""A Flask application under the reloader: a store and runners at module level.

`APP_GUARD` says whether it leaves the reloader's own process without runners, as the how-to
page advises.
"""

from __future__ import annotations

import os
import time
from typing import Any

from flask import Flask

import alkstore_postgres
from alkstore.traits import JobHandle, Runner

app = Flask(__name__)
store = alkstore_postgres.open(
    os.environ["APP_URL"], os.environ["APP_SCHEMA"], migrate=False, max_size=3
)
store.schedule("tick", "@every 1s", "ticks", None)
runners: dict[str, Runner] = {}


def send(job: JobHandle) -> None:
    """Handle a job: tell who did it."""
    store.queue("sent").enqueue({"mail": job.payload, "pid": os.getpid()})


def in_the_reloader() -> bool:
    """Return whether this process only watches the files, and starts the one that serves."""
    return app.debug and os.environ.get("WERKZEUG_RUN_MAIN") != "true"


if not (os.environ["APP_GUARD"] and in_the_reloader()):
    runners["scheduler"] = store.start_scheduler()
    runners["worker"] = store.start_worker("mail", send)


@app.get("/")
def about() -> dict[str, Any]:
    """Answer what there is to know of this process."""
    return {
        "pid": os.getpid(),
        "at": time.time(),
        "runners": {name: runner.state for name, runner in runners.items()},
    }


@app.get("/enqueue")
def enqueue() -> list[int]:
    """Store a job."""
    return [store.queue("mail").enqueue("hello")]
