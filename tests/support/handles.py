"""Handles of locks, looked at by tests."""

from __future__ import annotations

from alkstore import LockHandle


def held(handle: LockHandle | None) -> LockHandle:
    """Return a handle; fail when the lock was not free."""
    assert handle is not None
    return handle


def is_lost(handle: LockHandle) -> bool:
    """Return whether it is lost by now; a type checker believes in no change."""
    return handle.lost
