"""The public entry to locks: try, or wait."""

from __future__ import annotations

import random
import secrets
import time
from typing import Final

from alkstore.arguments import Seconds, positive_seconds, true_or_false, wait_seconds
from alkstore.errors import InvalidName, InvalidOption, LockTimeout
from alkstore.names import check_name
from alkstore.stop_token import Parker, StopToken, check_optional_stop
from alkstore_postgres.lock.handle import PostgresLockHandle
from alkstore_postgres.lock.keeper import Keeper
from alkstore_postgres.lock.leases import Lease, Leases
from alkstore_postgres.wakes.hub import WakeHub

POLL: Final = 5.0
"""The longest a waiter sleeps without looking again, in seconds."""

_HERD = 0.01
_LAPSE_HERD = 0.05


class Locks:
    """Takes locks.

    Args:
        leases: The lease statements.
        hub: Where releases are heard.
    """

    def __init__(self, leases: Leases, hub: WakeHub) -> None:
        self._leases = leases
        self._hub = hub

    def try_lock(
        self, name: str, ttl: Seconds, owner: str | None = None, *, keep_alive: bool = False
    ) -> PostgresLockHandle | None:
        """Take a lock if it is free, without waiting.

        Args:
            name: The lock's name.
            ttl: How long it holds without a renewal: seconds or `timedelta`.
            owner: Who takes it; ``None``: a random one, unique per handle.
            keep_alive: Renew it from a thread until it is released or lost.

        Returns:
            The handle, or ``None`` when the lock is held, by whomever.

        Raises:
            InvalidName: *name* breaks the naming rule (`ReservedName` when reserved).
            InvalidOption: *ttl*, *owner* or *keep_alive* is impossible.
            DatabaseError: The database failed; if the lock was taken nevertheless, its
                lease ends by itself.
        """
        return self._request(name, ttl, owner, keep_alive=keep_alive).attempt_once()

    def lock(
        self,
        name: str,
        ttl: Seconds,
        timeout: Seconds | None = None,
        stop: StopToken | None = None,
        owner: str | None = None,
        *,
        keep_alive: bool = False,
    ) -> PostgresLockHandle:
        """Take a lock, waiting until it is free.

        A release wakes the waiters; they look again when the holder's lease ends, and
        every 5 s in any case. Who comes first among waiters is left to chance.

        Args:
            name: As `try_lock`.
            ttl: As `try_lock`.
            timeout: Seconds or `timedelta` to wait at most; ``None``: no limit. With 0 it
                is tried once.
            stop: Ends the wait.
            owner: As `try_lock`.
            keep_alive: As `try_lock`.

        Raises:
            LockTimeout: The time was up, or *stop* was cancelled.
            InvalidName: As `try_lock`.
            InvalidOption: As `try_lock`, *timeout* is not a duration, or *stop* no
                stop token.
            DatabaseError: As `try_lock`.
            StoreClosed: The store was closed, whatever *stop* says.
        """
        request = self._request(name, ttl, owner, keep_alive=keep_alive)
        limit = wait_seconds(timeout)
        stop = check_optional_stop(stop)
        deadline = None if limit is None else time.monotonic() + limit
        self._leases.check_open()
        _refuse_stopped(request.name, stop)
        handle = request.attempt_once()  # a free lock needs no listener
        if handle is not None:
            return handle
        parker = Parker()

        def wake(_name: str) -> None:
            parker.unpark()

        try:
            self._hub.attach(request.name, wake)
            if stop is not None:
                stop.attach(parker)
            return self._wait(request, deadline, limit, stop, parker)
        finally:
            if stop is not None:
                stop.detach(parker)
            self._hub.detach(request.name, wake)

    def _wait(
        self,
        request: _Request,
        deadline: float | None,
        limit: float | None,
        stop: StopToken | None,
        parker: Parker,
    ) -> PostgresLockHandle:
        while True:
            _refuse_stopped(request.name, stop)
            outcome = request.attempt()
            if isinstance(outcome, PostgresLockHandle):
                return outcome
            left = POLL if deadline is None else deadline - time.monotonic()
            if left <= 0:
                msg = f"lock {request.name!a} was not free within {limit:g} s"
                raise LockTimeout(msg)
            # Waiters that sleep towards the same moment do not all ask in it.
            nap = min(outcome + _chance(_LAPSE_HERD), POLL * (1 - _chance(0.2)), left)
            if parker.park(nap) and (stop is None or not stop.cancelled):
                time.sleep(min(_chance(_HERD), left))

    def _request(self, name: str, ttl: Seconds, owner: str | None, *, keep_alive: bool) -> _Request:
        return _Request(
            self._leases,
            check_name(name, "lock"),
            positive_seconds(ttl, "ttl"),
            secrets.token_hex(16) if owner is None else _check_owner(owner),
            keep_alive=true_or_false(keep_alive, "keep_alive"),
        )


class _Request:
    """A checked wish for a lock."""

    def __init__(
        self, leases: Leases, name: str, ttl: float, owner: str, *, keep_alive: bool
    ) -> None:
        self.name = name
        self._leases = leases
        self._ttl = ttl
        self._owner = owner
        self._keep_alive = keep_alive

    def attempt_once(self) -> PostgresLockHandle | None:
        outcome = self.attempt()
        return outcome if isinstance(outcome, PostgresLockHandle) else None

    def attempt(self) -> PostgresLockHandle | float:
        """Return a handle, or for how many seconds another one holds the lock."""
        sent = time.monotonic()
        outcome = self._leases.acquire(self.name, self._owner, self._ttl)
        return self._handle(outcome, sent) if isinstance(outcome, Lease) else outcome

    def _handle(self, lease: Lease, sent: float) -> PostgresLockHandle:
        keeper = Keeper(self._leases, lease, self._ttl, sent, keep_alive=self._keep_alive)
        if self._keep_alive:
            try:
                keeper.start()
            except BaseException:
                keeper.release()  # nobody would renew it, and nobody has the handle
                raise
        return PostgresLockHandle(keeper)


def _check_owner(owner: object) -> str:
    try:
        return check_name(owner, "lock owner")
    except InvalidName as error:
        raise InvalidOption(str(error)) from None


def _refuse_stopped(name: str, stop: StopToken | None) -> None:
    if stop is not None and stop.cancelled:
        msg = f"the wait for lock {name!a} was stopped"
        raise LockTimeout(msg)


def _chance(most: float) -> float:
    return random.uniform(0, most)  # noqa: S311 - spreads waiters, keeps no secret
