"""The tasks that are measured on every contestant, inside its own process.

All times are of the monotonic clock, which the processes of one machine share on Linux.
"""

from __future__ import annotations

import random
import resource
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.contestants.base import Contestant

_DRAIN_LIMIT = 600.0
_READY_LIMIT = 60.0
_FILL_CHUNK = 1_000


def enqueue(contestant: Contestant, clients: int, seconds: float) -> dict[str, float]:
    """Let *clients* threads store single jobs for so many seconds; return how many."""
    barrier = threading.Barrier(clients + 1)
    ends: list[tuple[int, float]] = []
    limit = [0.0]

    def produce() -> None:
        with contestant.client() as store_one:
            for number in range(10):
                store_one(number)
            barrier.wait()
            barrier.wait()
            count = 0
            while time.monotonic() < limit[0]:
                store_one(count)
                count += 1
            ends.append((count, time.monotonic()))

    threads = [threading.Thread(target=produce) for _ in range(clients)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.monotonic()
    limit[0] = began + seconds
    barrier.wait()
    for thread in threads:
        thread.join()
    if len(ends) < clients:
        msg = "a client failed"
        raise RuntimeError(msg)
    return {
        "jobs": sum(count for count, _ in ends),
        "seconds": max(ended for _, ended in ends) - began,
    }


def bulk(contestant: Contestant, count: int) -> dict[str, float]:
    """Store *count* jobs at once."""
    if not contestant.has_bulk:
        msg = "it has no bulk enqueue"
        raise RuntimeError(msg)
    numbers = range(count)
    began = time.monotonic()
    contestant.enqueue_many(numbers)
    return {"jobs": count, "seconds": time.monotonic() - began}


def drain(
    contestant: Contestant, count: int, step: int = 0, fill: int = 0, patience: float | None = None
) -> dict[str, Any]:
    """Work until *count* no-op jobs are done.

    Args:
        contestant: Who works.
        count: How many jobs.
        step: Also tell how long each so many jobs took.
        fill: Store so many jobs first.
        patience: After so many seconds those that are stored, and after as many again those
            that are done, count; ``None``: all must be.

    Returns:
        ``jobs``: how many were done; ``left``: how many were not; ``from_call``: seconds from
        the start of the worker, ``from_first``: from the first handler, both to the last job's
        end; ``steps``: seconds of each step.
    """
    count -= fill - _fill(contestant, fill, patience)
    stop = threading.Event()
    done = threading.Event()
    marks: list[float] = []
    seen = 0
    latest = 0.0
    every = step or count

    def handle(_number: int) -> None:
        nonlocal seen, latest
        if seen % every == 0:
            marks.append(time.monotonic())
        elif patience is not None:
            latest = time.monotonic()
        seen += 1
        if seen == count:
            done.set()

    began = time.monotonic()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            contestant.work(handle, stop)
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            done.set()

    worker = threading.Thread(target=run)
    worker.start()
    in_time = done.wait(patience or _DRAIN_LIMIT)
    if in_time and not failed:
        contestant.settled()
    # Jobs that an earlier round had in hand may be out of reach for long: nobody waits for them.
    ended = time.monotonic() if in_time or seen < 2 else latest
    handled = seen
    stop.set()
    worker.join(_READY_LIMIT)
    enough = in_time or (patience is not None and handled > 0)
    if failed or not enough or worker.is_alive():
        msg = f"the worker did {handled} of {count} jobs: {failed or 'too slow'}"
        raise RuntimeError(msg)
    marks.append(ended)
    return {
        "jobs": handled,
        "left": count - handled,
        "from_call": ended - began,
        "from_first": ended - marks[0],
        "steps": [after - before for before, after in pairwise(marks)],
    }


def _fill(contestant: Contestant, count: int, patience: float | None) -> int:
    """Store *count* jobs, or as many as *patience* allows; return how many."""
    if patience is None:
        if count:
            contestant.enqueue_many(range(count))
        return count
    limit = time.monotonic() + patience
    stored = 0
    while stored < count and time.monotonic() < limit:
        until = min(stored + _FILL_CHUNK, count)
        contestant.enqueue_many(range(stored, until))
        stored = until
    return stored


def together(contestant: Contestant, workers: int, at: float, seconds: float) -> dict[str, int]:
    """Let *workers* threads work on a full queue for a while.

    Args:
        contestant: Who works.
        workers: How many threads, each of which works as a whole process would.
        at: When the time begins, on the monotonic clock; they are warm by then.
        seconds: How long.

    Returns:
        ``jobs``: how many they did in that time; ``all``: with those before and after.
    """
    stop = threading.Event()
    counts, all_counts = [0] * workers, [0] * workers

    def work(place: int) -> None:
        def handle(_number: int) -> None:
            all_counts[place] += 1
            if at <= time.monotonic() < at + seconds:
                counts[place] += 1

        contestant.work(handle, stop)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(workers)]
    for thread in threads:
        thread.start()
    time.sleep(max(at + seconds - time.monotonic(), 0.0))
    stop.set()
    for thread in threads:
        thread.join(_READY_LIMIT)
    return {"jobs": sum(counts), "all": sum(all_counts)}


class Idle:
    """A worker that has nothing to do, in a thread; notes when jobs reach it.

    Args:
        contestant: Who works.
    """

    def __init__(self, contestant: Contestant) -> None:
        self._stop = threading.Event()
        self._delays: list[float] = []
        self._thread = threading.Thread(target=contestant.work, args=(self._handle, self._stop))
        self._thread.start()

    def _handle(self, number: int) -> None:
        if number:
            self._delays.append((time.monotonic_ns() - number) / 1e6)

    @property
    def handled(self) -> int:
        """How many jobs reached it so far."""
        return len(self._delays)

    def end(self) -> list[float]:
        """Stop it; return the milliseconds from each enqueue call to its handler."""
        self._stop.set()
        self._thread.join(_READY_LIMIT)
        return self._delays


def produce(contestant: Contestant, count: int, gap: float) -> int:
    """Store *count* jobs that carry the time of the call, *gap* seconds apart on average."""
    with contestant.client() as store_one:
        for _ in range(count):
            time.sleep(random.uniform(0.5 * gap, 1.5 * gap))
            store_one(time.monotonic_ns())
    return count


def setup(contestant: Contestant) -> None:
    """Make the tables."""
    contestant.setup()


def memory(_contestant: Contestant) -> dict[str, float]:
    """Return the memory of this process now and at its peak, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {
        "now": pages * resource.getpagesize() / 1e6,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
