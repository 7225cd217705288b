"""What any store refuses, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.two_engines import START

REFUSED: list[Callable[[Any], Any]] = [
    lambda store: store.queue("q").enqueue(1, delay=-1),
    lambda store: store.queue("q").enqueue(1, delay=1, run_at=START),
    lambda store: store.queue("q").enqueue(1, priority=1 << 15),
    lambda store: store.queue("q").enqueue(1, expires=0),
    lambda store: store.queue("q").enqueue(float("nan")),
    lambda store: store.queue("q").enqueue_many([1, object()], max_attempts=2),
    lambda store: store.queue("q").enqueue("x" * (1 << 20)),
    lambda store: store.queue("q").claim("w", 0),
    lambda store: store.queue("__alkstore_q"),
    lambda store: store.queue("q").purge([0]),
    lambda store: store.get_job(True),
    lambda store: store.schedule("s", "@hourly", "q", 1),
    lambda store: store.schedule("s", "@every 1s", "__alkstore_outbox:o", 1),
    lambda store: store.schedule("s", "@every 1s", "q", 1, catch_up="some"),
    lambda store: store.try_lock("l", 0),
    lambda store: store.run_now("nobody"),
    lambda store: store.listen(),
    lambda store: store.listen("c", "__alkstore_scheduler"),
    lambda store: store.notify("c\x00"),
    lambda store: store.notify_tx(None, "__alkstore_scheduler"),
]
