"""What the tests of workers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alkstore.runners import WorkerRunner
from alkstore.runners.settlement import ReleasesMany
from alkstore.traits import JobHandle, Queue

Start = Callable[..., WorkerRunner]


def release_many(queue: Queue, handles: Sequence[JobHandle]) -> int:
    """Release claims together, as runners do."""
    assert isinstance(queue, ReleasesMany)
    return queue.release_many(handles)


def is_empty(queue: Queue) -> bool:
    return queue.size() == 0
