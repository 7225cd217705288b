"""How long something takes, on a machine that may be busy with other things as well."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from alkstore._typing import Self

_TRIES = 5
_UNEXCUSED = 2
_NAP = 0.01
_NOISE = 0.05


def in_time(attempt: Callable[[], float], limit: float) -> None:
    """Fail unless *attempt*, which returns how long it took, takes less than *limit* seconds.

    It is tried again when it was late: as often as `_TRIES` allows while the machine stood still
    during each attempt, as a stopwatch beside it tells, and once more otherwise. What is late at
    times by itself is late twice.
    """
    took: list[float] = []
    unexcused = 0
    while not took or took[-1] >= limit:
        late = f"limit {limit:g} s, it took {took}, {unexcused} times while the machine ran"
        assert len(took) < _TRIES, late
        assert unexcused < _UNEXCUSED, late
        with Stopwatch() as watch:
            took.append(attempt())
        unexcused += took[-1] >= limit and not watch.lost


class Stopwatch:
    """Counts the seconds of a block in which this process could run.

    A thread naps meanwhile. What a nap lasts too long, by more than threads of one process keep
    each other waiting, the machine had no time for anybody here.
    """

    def __init__(self) -> None:
        self._began = self._ended = 0.0
        self._lost = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._nap, name="stopwatch", daemon=True)

    @property
    def seconds(self) -> float:
        """How long the block took, once it is over."""
        return self._ended - self._began - self._lost

    @property
    def lost(self) -> float:
        """For how many seconds of it this process could not run."""
        return self._lost

    def _nap(self) -> None:
        while not self._over.is_set():
            due = time.monotonic() + _NAP
            self._over.wait(_NAP)
            now = time.monotonic()
            late = (min(now, self._ended) if self._over.is_set() else now) - due
            if late > _NOISE:
                self._lost += late

    def __enter__(self) -> Self:
        """Begin to count."""
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count no more."""
        self._ended = time.monotonic()
        self._over.set()
        self._thread.join()


_CONTROL = """
import sys
import alkstore_postgres
print("up", flush=True)
sys.stdin.readline()
"""


class Control:
    """An interpreter with nothing to end, that ends in the same moment as another.

    Where the machine is busy, it is busy for both.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CONTROL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n"

    def end_beside(self, other: subprocess.Popen[Any], limit: float = 30.0) -> float:
        """End now; return how much longer *other* takes to end, in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        ends: dict[int, float] = {}
        deadline = time.monotonic() + limit
        while len(ends) < 2:
            assert time.monotonic() < deadline, f"it went on for {limit:g} s"
            for one in (self._process, other):
                if one.pid not in ends and one.poll() is not None:
                    ends[one.pid] = time.monotonic()
            time.sleep(0.002)
        return ends[other.pid] - ends[self._process.pid]

    def __enter__(self) -> Self:
        """Return itself; it is up."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Make sure that it is gone."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
