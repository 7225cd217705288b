"""The machine that every runner shares: supervised daemon threads with one end."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from alkstore._typing import Self, override
from alkstore.arguments import Seconds, wait_seconds
from alkstore.error_text import error_text
from alkstore.errors import StoreClosed
from alkstore.runners.at_exit import is_too_late, stop_at_exit
from alkstore.runners.hosting import frozen_threads
from alkstore.runners.pause import pause
from alkstore.runners.say import say
from alkstore.runners.status import PATIENCE, Status
from alkstore.runners.threads import Threads
from alkstore.stop_token import StopToken
from alkstore.values import RunnerHealth, RunnerState

_logger = logging.getLogger(__name__)

DEFAULT_GRACE = 30.0
"""How long `Supervisor.stop` lets work finish unless told otherwise, in seconds."""

AFTER_GRACE = 1.0
"""How long after that it may still take, in seconds: what was held is released then."""

_TRIES_AT_THE_END = 10
"""So often a body that fails to wind up is started again after the stop."""

_SECOND_THOUGHT = 0.2
"""For so many seconds a closed store may be the first sign of an orderly end: programs, and their
exit functions, often close a pool just before whatever uses it."""


class Supervisor:
    """A `Runner` whose work is done by the bodies that a subclass spawns.

    A body is a function that works until the stop token is cancelled and returns then. It
    runs in a daemon thread. Whatever it raises, `SystemExit` and `KeyboardInterrupt`
    included, is logged and kept, and the body is started again after a pause; only
    `StoreClosed` ends the runner, quietly when it was asked to end. So is what is set in the
    thread from outside, and strikes outside of the body. A body that finds the token cancelled
    when it is started winds up what it left and returns. A subclass overrides `_begin` to spawn
    its bodies.

    A forked child inherits the object but none of the threads: there the runner says that
    it is stopped, and why, and `stop` and `join` return at once.

    Args:
        name: What it runs, for its threads' names and the log.
        patience: How long it may back off, and how old its last good turn may be, in seconds,
            before it is not healthy.
    """

    def __init__(self, name: str, patience: float = PATIENCE) -> None:
        self._name = name
        self._patience = patience
        self._pid = os.getpid()
        self._token = StopToken()
        self._status = Status(name)
        self._lock = threading.Lock()
        self._threads = Threads()
        self._begun_at: float | None = None
        self._deadline: float | None = None
        self._cut_short = False
        self._ended_by: StoreClosed | None = None

    # -- for subclasses

    def _begin(self) -> None:
        """Spawn the bodies."""
        raise NotImplementedError

    def _problem(self) -> str | None:
        """Return what else is wrong with a runner that seems to be healthy."""
        return None

    def _details(self) -> dict[str, Any]:
        """Return what else there is to know."""
        return {}

    def _given_up(self) -> Collection[threading.Thread]:
        """Return the threads that nobody waits for any more."""
        return ()

    def _spawn(self, part: str, body: Callable[[], None]) -> threading.Thread:
        """Run *body* in a supervised thread and return that.

        Raises:
            RuntimeError: No thread can be started.
        """
        thread = threading.Thread(
            target=self._supervise,
            args=(part, body),
            name=f"alkstore {self._name}: {part}",
            daemon=True,
        )
        self._threads.start(thread)
        return thread

    def _forget(self, thread: threading.Thread) -> None:
        """Miss *thread* no more, which has died; what it did is done without it."""
        self._threads.forget(thread)

    def _end_by(self, deadline: float) -> float:
        """Note until when work may go on."""
        self._deadline = deadline
        # Nobody waits for longer, and nobody is told what fails then.
        self._status.quiet_after = deadline + AFTER_GRACE
        return deadline

    def _time_left(self) -> float:
        """Return how long work may still go on after the stop, in seconds."""
        deadline = self._deadline
        if deadline is None:
            # The token was cancelled by somebody who set no time.
            deadline = self._end_by(time.monotonic() + DEFAULT_GRACE)
        return deadline - time.monotonic()

    # -- the trait

    @property
    def name(self) -> str:
        """What it runs."""
        return self._name

    @property
    def inherited(self) -> bool:
        """Whether this is a forked copy of a runner that belongs to another process."""
        return self._pid != os.getpid()

    @property
    def ending(self) -> bool:
        """Whether it was asked to end, or has ended."""
        return self.inherited or self._token.cancelled

    @property
    def state(self) -> RunnerState:
        """What it is doing."""
        return "stopped" if self.inherited or self._ended() else self._status.state

    @property
    def last_error(self) -> BaseException | None:
        """The last unexpected error, or ``None``."""
        return self._status.last_error

    def health(self) -> RunnerHealth:
        """Return whether it does what it should."""
        state = self.state
        reason = self._sickness(state)
        return RunnerHealth(
            healthy=reason is None,
            state=state,
            reason=reason,
            last_good_turn=self._status.last_good_turn(time.monotonic()),
            last_error=self._status.last_error,
            details={"failures": self._status.failures, **self._details()},
        )

    def start(self) -> Self:
        """Start the threads and return the runner; nothing happens the second time.

        A runner that was stopped before it was started does not start.
        """
        with self._lock:
            if self._begun_at is not None or self._token.cancelled:
                return self
            self._begun_at = time.monotonic()
        if (frozen := frozen_threads()) is not None:
            say(_logger, logging.WARNING, "%s: %s", self._name, frozen)
        stop_at_exit(self)
        try:
            self._begin()
        except BaseException:
            self.ask_to_end(0.0)
            raise
        return self

    def ask_to_end(self, grace: float) -> None:
        """Begin to end and return at once.

        Args:
            grace: How long work may go on, in seconds. Asking again may shorten it.
        """
        if self.inherited:
            return
        deadline = time.monotonic() + grace
        if self._deadline is None or deadline < self._deadline:
            self._end_by(deadline)
        self._token.cancel()
        self._hurry()

    def _hurry(self) -> None:
        """Wake the threads that wait for the end of the grace; it may be nearer now."""

    def stop(self, timeout: Seconds | None = None) -> bool:
        """Ask it to end and wait for that; see `Runner.stop`.

        It returns at most a second after the *timeout*. From one of the runner's own
        threads (a handler that stops its worker) it asks and returns ``False`` at once.

        Raises:
            InvalidOption: *timeout* is not a duration.
        """
        limit = wait_seconds(timeout)
        grace = DEFAULT_GRACE if limit is None else limit
        self.ask_to_end(grace)
        return self.wind_up(grace + AFTER_GRACE)

    def wind_up(self, timeout: float) -> bool:
        """Wait until nothing is in hand any more.

        Handlers whose claims were given up may run on: nobody waits for them.

        Args:
            timeout: How long to wait at most, in seconds.

        Returns:
            Whether everything ended as it should.
        """
        if self.inherited:
            return True
        return self._threads.wait(timeout, self._given_up) and not self._cut_short

    def join(self, timeout: Seconds | None = None) -> bool:
        """Wait until it has ended; see `Runner.join`.

        Raises:
            InvalidOption: *timeout* is not a duration.
        """
        limit = wait_seconds(timeout)
        return self.inherited or self._threads.wait(limit, tuple)

    @override
    def __repr__(self) -> str:
        """Show what it runs and how it does."""
        return f"<{type(self).__name__} {self._name!a}: {self.state}>"

    # -- the machine

    def _supervise(self, part: str, body: Callable[[], None]) -> None:
        # Whatever strikes, and wherever: it is dealt with in the next turn, inside the guard too.
        struck: BaseException | None = None
        tries_at_the_end = 0
        while True:
            try:
                failures = 1
                if done := struck is None:
                    body()
                else:
                    # Kept in no other name: its traceback holds this frame.
                    failures, struck = self._fail(part, struck), None
                if self.inherited:
                    return  # a handler forked, and its child came back here
                if self._token.cancelled:
                    tries_at_the_end += 1
                    if done or tries_at_the_end == _TRIES_AT_THE_END:
                        return
                self._rest(failures)
            except BaseException as error:  # noqa: BLE001 - a body never dies silently
                struck = error

    def _fail(self, part: str, error: BaseException) -> int:
        """Do what *error* asks for; return how many failures in a row *part* has had."""
        if isinstance(error, StoreClosed):
            self._end_with(error)
        elif is_too_late(error):
            self.ask_to_end(0.0)  # quietly: nothing has failed
        else:
            return self._status.failed(part, error)
        return 1

    def _end_with(self, closed: StoreClosed) -> None:
        """End, since nothing that is held can be told to a closed store."""
        if self.inherited:
            return
        if not self._token.wait(_SECOND_THOUGHT):
            with self._lock:
                first = self._ended_by is None and not self._token.cancelled
                if first:
                    self._ended_by = closed
            if first:
                self._status.gave_up(closed)
        self.ask_to_end(0.0)

    def _rest(self, failures: int) -> None:
        if self._token.wait(pause(failures)):
            # The end must not wait for the pause of a failure, nor spin.
            time.sleep(0.02)

    def _ended(self) -> bool:
        """Return whether nothing goes on any more that it would answer for.

        A handler whose claim was given up may run on, but it settles nothing.
        """
        if not self._token.cancelled:
            return False
        given_up = self._given_up()
        return all(thread in given_up for thread in self._threads.alive())

    def _why_ending(self, state: RunnerState) -> str:
        """Return why it has ended, or is about to."""
        if self._ended_by is not None:
            return f"it ended by itself: {error_text(self._ended_by)}"
        return "it was stopped" if state == "stopped" else "it is stopping"

    def _sickness(self, state: RunnerState) -> str | None:
        """Return why the runner is not healthy, or ``None``."""
        if self.inherited:
            return (
                f"it was started in process {self._pid}; "
                "runners stay with the process that started them"
            )
        if self._token.cancelled or self._ended_by is not None:
            return self._why_ending(state)
        if self._begun_at is None:
            return "it was not started"
        if dead := self._threads.dead():
            return f"a thread of it is dead: {dead[0].name}"
        if (frozen := frozen_threads()) is not None:
            return frozen
        now = time.monotonic()
        slow = self._status.slowness(now, self._begun_at, self._patience)
        problem = self._problem()  # looked for in any case: the details tell what was found
        return slow or problem
