"""What the tests of workers share."""

from __future__ import annotations

from collections.abc import Callable

from alkstore.runners import WorkerRunner
from alkstore.traits import Queue

Start = Callable[..., WorkerRunner]


def is_empty(queue: Queue) -> bool:
    return queue.size() == 0
