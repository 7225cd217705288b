"""The other end of an outbox, as a test sees it."""

from __future__ import annotations

from typing import Any

from alkstore.traits import JobHandle


class Receiver:
    """Takes messages and may refuse them."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int, Any]] = []
        self.error: BaseException | None = None

    def __call__(self, handle: JobHandle) -> None:
        self.got.append((handle.id, handle.attempt, handle.payload))
        if self.error is not None:
            raise self.error
