"""A process that leads or stands by until it is told to end: one node of a test cluster.

Run as ``python -m tests.support.scheduler_process CONNINFO SCHEMA TTL CLOCK_ERROR``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time

import alkstore_postgres
from alkstore import DatabaseError, StopToken
from alkstore_postgres.scheduler.leader import LeaderLoop


def main() -> None:
    """Run until SIGTERM."""
    conninfo, schema, ttl, clock_error = sys.argv[1:5]
    logging.basicConfig(level=logging.WARNING, format="%(relativeCreated)d %(message)s")
    wall = time.time
    time.time = lambda: wall() + float(clock_error)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    stop = StopToken()
    with stop.on_signals(signal.SIGTERM, signal.SIGINT):
        store = None
        while store is None and not stop.cancelled:
            try:
                store = alkstore_postgres.open(conninfo, schema, migrate=False, timeout=2.0)
            except DatabaseError:
                stop.wait(0.2)  # the way to the server is cut: as a supervisor would
        if store is None:
            return
        parts = store._parts
        loop = LeaderLoop(parts.database, parts.hub, ttl=float(ttl))
        parts.lead = loop.run  # type: ignore[method-assign]
        store.start_scheduler()
        stop.wait()
        store.close()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
