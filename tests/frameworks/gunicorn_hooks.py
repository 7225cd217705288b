"""The configuration file of gunicorn in these tests."""

from __future__ import annotations

import os


def post_worker_init(worker: object) -> None:
    """Start the runners in each worker process, after the fork and the import."""
    if os.environ["APP_START"] == "hook":
        from tests.frameworks import app

        app.start_runners()
