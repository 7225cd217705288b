"""Runs a PostgreSQL server for as long as its parent lives. Standard library only.

The parent starts it with its order as JSON in the first argument and holds its standard
input; its output is the server's log. The server is stopped when a line there says how,
when that input ends, or when the parent is gone, killed or not. When this process itself is
killed, the kernel stops the server (Linux); elsewhere the server then stays until the
directory's next start says that it is there.

This process and all of the server's hold one lock, on the guard file: as long as one of them
lives, no other server starts over the same data, whatever their process numbers are.
"""

from __future__ import annotations

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
_PR_SET_PDEATHSIG = 1
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def main() -> int:
    """Run the server to its end; return its exit status."""
    order = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _do_nothing)
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
    if mode is not None:
        status = _stop(server, mode)
    if order["remove"] is not None and os.getppid() != order["parent"]:
        shutil.rmtree(order["remove"], ignore_errors=True)
    return status


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
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def _attend(server: int, parent: int, ended: int) -> tuple[str | None, int]:
    """Return how the server is to be stopped; ``None``, with its status, when it ended."""
    text = b""
    while True:
        done, status = os.waitpid(server, os.WNOHANG)
        if done:
            return None, os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            return "fast", 0
        if 0 in select.select([0, ended], [], [], _LOOK_EVERY)[0]:
            piece = os.read(0, 100)
            if not piece:
                return "fast", 0
            text += piece
            if text.endswith(b"\n"):
                return text.decode().strip(), 0


def _stop(server: int, mode: str) -> int:
    """Stop the server, ever more firmly; return its exit status."""
    status = _signal(server, _SIGNALS.get(mode, signal.SIGINT), _STOP_LIMIT)
    if status is None:
        status = _signal(server, signal.SIGQUIT, _QUIT_LIMIT)
    if status is None:
        os.kill(server, signal.SIGKILL)  # its children notice that it is gone
        status = os.waitpid(server, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _signal(server: int, number: signal.Signals, limit: float) -> int | None:
    os.kill(server, number)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(server, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    return None


if __name__ == "__main__":
    sys.exit(main())
