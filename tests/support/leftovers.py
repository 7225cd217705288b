"""What a run of the suite has left behind: processes and threads."""

from __future__ import annotations

import os
import secrets
import threading
import time
from pathlib import Path

_LIMIT = 10.0
# The thread that holds the time limit of the test in whose teardown the check runs.
_TIME_LIMIT = "pytest_timeout"


class Leftovers:
    """Marks the environment, which every process that is started from here inherits.

    Each run, and each worker of a run in several processes, has a mark of its own: it finds
    what it has left itself, and what runs have left that its tests have started.

    Args:
        limit: How many seconds what is left may take to end.
    """

    def __init__(self, limit: float = _LIMIT) -> None:
        self._limit = limit
        self._mark = f"ALKSTORE_TEST_RUN_{os.getpid()}_{secrets.token_hex(8)}"
        os.environ[self._mark] = "here"
        self._threads = set(threading.enumerate())
        self._before = {pid for pid, _ in self._processes()}

    def check(self) -> None:
        """Fail when a process or a thread is left, after some seconds of patience."""
        deadline = time.monotonic() + self._limit
        while left := [*self._new_processes(), *self._new_threads()]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.02)
        os.environ.pop(self._mark, None)

    def _new_processes(self) -> list[str]:
        return [command for pid, command in self._processes() if pid not in self._before]

    def _processes(self) -> list[tuple[str, str]]:
        """Return what is ours (Linux).

        The mark finds also those that have lost their parents; a child that was forked from
        here, and runs no program of its own, has no such mark.
        """
        mark = f"{self._mark}=here".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                marked = mark in (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue  # it has ended, or belongs to somebody else
            if b"multiprocessing.resource_tracker" in command:
                continue  # the interpreter's own; it ends when the interpreter does
            if state != "Z" and (marked or parent == str(os.getpid())):
                shown = command.decode("utf-8", "replace").strip()
                found.append((entry.name, f"{entry.name} {shown}"))
        return found

    def _new_threads(self) -> list[str]:
        return [
            thread.name
            for thread in set(threading.enumerate()) - self._threads
            if not thread.name.startswith(_TIME_LIMIT)
        ]
