"""A lock on a file: between threads and processes, gone with the process that holds it."""

from __future__ import annotations

import os
from pathlib import Path

# Imported below where it is used: the package can be imported everywhere, to say that it
# runs on some systems only.


class FileLock:
    """Waits for the lock on *path*, which is made when it is not there, and holds it.

    A forked child has no part in it: it neither holds the lock nor can it give it back.
    """

    def __init__(self, path: Path) -> None:
        import fcntl  # noqa: PLC0415

        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _held.add(self)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the lock back. May be repeated."""
        import fcntl  # noqa: PLC0415

        _held.discard(self)
        file, self._file = self._file, None
        if file is not None:
            # Said aloud, for the case that some child has a copy of the file after all.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def forget(self) -> None:
        """Leave the lock to the parent of a fork, whose child of it this is."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def is_locked(path: Path) -> bool:
    """Return whether somebody who lives holds the lock on *path*."""
    import fcntl  # noqa: PLC0415

    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)


_held: set[FileLock] = set()


def _forget_in_child() -> None:
    # A copy that stayed open would keep the lock when the parent is killed.
    while _held:
        _held.pop().forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
