"""A stop token that notices being looked at."""

from __future__ import annotations

from collections.abc import Callable

from alkstore._typing import override
from alkstore.stop_token import StopToken


class PulseToken(StopToken):
    """Shows that a blocking call is alive.

    A call that waits looks at its stop token in every turn of its loop, and it gets to
    the next turn only when the last one ended without an error. So an idle queue that is
    looked at every few seconds has good turns, and a call that hangs has none.

    Args:
        parent: The token whose cancellation cancels this one.
        beat: Called at each look.
    """

    def __init__(self, parent: StopToken, beat: Callable[[], None]) -> None:
        super().__init__(parent)
        self._beat = beat

    @property
    @override
    def cancelled(self) -> bool:
        """Whether the token is cancelled."""
        self._beat()
        return super().cancelled
