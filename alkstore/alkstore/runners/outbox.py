"""The outbox relay: deliveries of an outbox's messages."""

from __future__ import annotations

from alkstore._typing import override
from alkstore.runners.attempt import Outcome, attempt
from alkstore.runners.deliver import EXITS, log_failure
from alkstore.runners.pause import pause
from alkstore.runners.pool import JobPool
from alkstore.runners.work import check_work
from alkstore.traits import Delivery, JobHandle, Queue

_PART = "delivery"


class OutboxRunner(JobPool):
    """Calls *delivery* with each message of an outbox and settles what becomes of it.

    A delivery that returns acknowledges its message; one that raises costs an attempt,
    and the message comes back on the retry curve. `KeyboardInterrupt` and `SystemExit`
    release the message. There is no caller here that they could propagate to: they are
    logged as the runner's `last_error`, and it goes on after a pause.

    No heartbeat is sent: a delivery that takes longer than the visibility timeout calls
    `JobHandle.heartbeat` itself, and one that hangs is tried elsewhere.

    Args:
        queue: The queue behind the outbox.
        delivery: The application's code.
        name: The outbox's name.
        concurrency: How many deliveries at once, 1 to 1,000.
        worker_id: Who claims; ``None``: the host, the process and a random text.

    Raises:
        InvalidOption: *delivery* cannot be called, or is a coroutine function or a generator
            function; or *concurrency* is out of range.
        InvalidName: *worker_id* breaks the naming rule.
    """

    def __init__(
        self,
        queue: Queue,
        delivery: Delivery,
        name: str,
        concurrency: int = 1,
        worker_id: str | None = None,
    ) -> None:
        check_work(delivery, "delivery")
        super().__init__(f"outbox {name}", queue, concurrency, worker_id)
        self._delivery = delivery
        self._exits = 0

    @override
    def _attempt(self, handle: JobHandle) -> Outcome:
        return attempt(self._delivery, handle, exits=EXITS)

    @override
    def _tell(self, handle: JobHandle, outcome: Outcome) -> None:
        raised = outcome.raised
        if isinstance(raised, EXITS):
            # Released, the message is due again at once: without a pause it would spin.
            self._exits += 1
            self._status.failed(_PART, raised)
            self._token.wait(pause(self._exits))
            self._status.over(_PART)
        else:
            self._exits = 0
            if raised is not None:
                log_failure(handle, raised)
