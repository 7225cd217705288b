"""Runs a PostgreSQL server for as long as its parent lives. Standard library only.

The parent starts it with its order as JSON in the first argument and holds its standard
input; its output is the server's log. The server is stopped when a line there says how,
when that input ends, or when the parent is gone, killed or not; without a parent it has half
a second to write all down, then it ends as in a crash. When this process itself is killed,
the kernel stops the server (Linux); elsewhere the server then stays until the directory's
next start says that it is there. ``initdb`` runs in the same way, and is just killed.

This process and all of the server's hold one lock, on the guard file: as long as one of them
lives, no other server starts over the same data, whatever their process numbers are.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

_LOOK_EVERY = 0.25
_GUARD_LIMIT = 20.0
_STOP_LIMIT = 20.0
_QUIT_LIMIT = 5.0
_ORPHAN_LIMIT = 0.4
_REMOVE_LIMIT = 5.0
_PR_SET_PDEATHSIG = 1
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def main() -> int:
    """Run the server to its end; return its exit status."""
    order = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _do_nothing)
    try:
        return _run(order)
    finally:
        if order["remove"] is not None and _is_orphan(order["parent"]):
            _remove(order["remove"])


def _run(order: dict[str, Any]) -> int:
    guard = _take_guard(order["guard"], order["parent"])
    if guard is None:
        _say("processes of an earlier server over this directory are still there")
        return 1
    ended, writer = os.pipe()
    for end in (ended, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    launcher = os.getpid()
    server = os.fork()
    if server == 0:
        _become_server(order, launcher, guard)
    mode, status = _attend(server, order["parent"], ended)
    if mode is not None and order["expendable"]:
        status = _kill_all(server)
    elif mode is not None:
        status = _stop(server, mode, order["parent"])
    return status


def _is_orphan(parent: int) -> bool:
    """Return whether the parent is gone.

    A process that is killed closes its files a moment before its children get another
    parent, so an input that has ended is a reason to look for a while.
    """
    deadline = time.monotonic() + (_ORPHAN_LIMIT if _input_has_ended() else 0.0)
    while os.getppid() == parent:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def _input_has_ended() -> bool:
    return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 100)


def _do_nothing(*_: object) -> None:
    pass


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _take_guard(path: str, parent: int) -> int | None:
    """Wait until no process of an earlier server is left; return the locked file."""
    guard = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _GUARD_LIMIT
    while os.getppid() == parent:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        else:
            return guard
    return None


def _become_server(order: dict[str, Any], launcher: int, guard: int) -> None:
    """Turn into the server; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.set_inheritable(guard, True)  # noqa: FBT003 - the function has no other form
        # Loaded now: the server's account may not come to the standard library.
        die_with_parent = _death_pact()
        if order["uid"] is not None:
            os.setgroups([])
            os.setgid(order["gid"])
            os.setuid(order["uid"])
        # After the change of user, which clears it.
        die_with_parent()
        if os.getppid() == launcher:
            os.execv(order["command"][0], order["command"])  # noqa: S606 - our own arguments
    except BaseException as error:  # noqa: BLE001 - a forked child must end here
        _say(f"{error}")
    os._exit(1)


def _death_pact() -> Callable[[], object]:
    """Return what asks the kernel to stop this process when its parent dies (Linux).

    The parent has one thread, so that the thread's end is the process's.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    import ctypes  # noqa: PLC0415 - only where it is of use

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # Nobody is left to see to it that a slower way comes to its end.
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)


def _attend(server: int, parent: int, ended: int) -> tuple[str | None, int]:
    """Return how the server is to be stopped; ``None``, with its status, when it ended."""
    text = b""
    while True:
        done, status = os.waitpid(server, os.WNOHANG)
        if done:
            return None, os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            return "fast", 0
        ready = select.select([0, ended], [], [], _LOOK_EVERY)[0]
        if ended in ready:
            os.read(ended, 1000)  # any signal writes there; a full pipe would never rest
        if 0 in ready:
            piece = os.read(0, 100)
            if not piece:
                return "fast", 0
            text += piece
            if text.endswith(b"\n"):
                return text.decode().strip(), 0


def _stop(server: int, mode: str, parent: int) -> int:
    """Stop the server, ever more firmly; return its exit status."""
    status = _signal(server, _SIGNALS.get(mode, signal.SIGINT), _STOP_LIMIT, parent)
    if status is None:
        status = _signal(server, signal.SIGQUIT, _QUIT_LIMIT, parent)
    if status is None:
        os.kill(server, signal.SIGKILL)  # its children notice that it is gone
        status = os.waitpid(server, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _signal(server: int, number: signal.Signals, limit: float, parent: int) -> int | None:
    """Return the server's status when it ends within *limit* seconds, fewer without a parent."""
    os.kill(server, number)
    deadline = time.monotonic() + limit
    orphaned = False
    while time.monotonic() < deadline:
        done, status = os.waitpid(server, os.WNOHANG)
        if done:
            return status
        if not orphaned and os.getppid() != parent:
            orphaned = True
            deadline = min(deadline, time.monotonic() + _ORPHAN_LIMIT)
        time.sleep(0.005)
    return None


def _kill_all(leader: int) -> int:
    """Kill a program and its children, which are in the group of its session."""
    with contextlib.suppress(ProcessLookupError):  # it has just been forked
        os.killpg(leader, signal.SIGKILL)
    os.kill(leader, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1])


def _remove(folder: str) -> None:
    # What was killed may still write its last.
    deadline = time.monotonic() + _REMOVE_LIMIT
    while os.path.exists(folder) and time.monotonic() < deadline:  # noqa: PTH110 - light start
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
