"""What a run of the suite has left behind: processes and threads."""

from __future__ import annotations

import os
import secrets
import threading
import time
from pathlib import Path

_MARK = "ALKSTORE_TEST_RUN"
_LIMIT = 10.0
# The thread that holds the time limit of the test in whose teardown the check runs.
_TIME_LIMIT = "pytest_timeout"


class Leftovers:
    """Marks the environment, which every process that is started from here inherits."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        os.environ[_MARK] = self._mark
        self._threads = set(threading.enumerate())

    def check(self) -> None:
        """Fail when a process or a thread is left, after some seconds of patience."""
        deadline = time.monotonic() + _LIMIT
        while left := [*self._processes(), *self._new_threads()]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.02)

    def _processes(self) -> list[str]:
        """Return the marked processes (Linux), also those that have lost their parents."""
        mark = f"{_MARK}={self._mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            if entry.name == str(os.getpid()):
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(f"{entry.name} {command.decode('utf-8', 'replace').strip()}")
            except OSError:
                continue
        return found

    def _new_threads(self) -> list[str]:
        return [
            thread.name
            for thread in set(threading.enumerate()) - self._threads
            if not thread.name.startswith(_TIME_LIMIT)
        ]
