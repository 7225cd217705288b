"""Runs a PostgreSQL server for as long as its parent lives. Standard library only.

The parent starts it with its settings as JSON in the first argument and holds its standard
input. The server is stopped when that says so, when it ends, or when the parent is gone,
killed or not; and when this process itself is killed, the kernel stops the server (Linux).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable

_LOOK_EVERY = 0.25
_PR_SET_PDEATHSIG = 1
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_STOP_LIMIT = 20.0


def main() -> int:
    """Run the server to its end; return its exit status."""
    settings = json.loads(sys.argv[1])
    parent = settings["parent"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    server = os.fork()
    if server == 0:
        _become_server(settings)
    mode = _attend(server, parent)
    if mode is None:
        return _status
    return _stop(server, mode)


_status = 0


def _become_server(settings: dict[str, object]) -> None:
    """Turn into the server; never returns."""
    launcher = os.getppid()
    try:
        os.setsid()
        log = os.open(str(settings["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Loaded now: the server's account may not come to the standard library.
        die_with_parent = _death_pact()
        uid, gid = settings["uid"], settings["gid"]
        if isinstance(uid, int) and isinstance(gid, int):
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        # After the change of user, which would clear it.
        die_with_parent()
        if os.getppid() != launcher:
            os._exit(1)
        command = settings["command"]
        assert isinstance(command, list)
        os.execv(command[0], command)
    except BaseException as error:  # noqa: BLE001 - a forked child must end here
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
    os._exit(1)


def _death_pact() -> Callable[[], object]:
    """Return what asks the kernel to stop this process when its parent dies (Linux)."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    import ctypes  # noqa: PLC0415 - only where it is of use

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def _attend(server: int, parent: int) -> str | None:
    """Return how the server is to be stopped; ``None`` when it ended by itself."""
    global _status  # noqa: PLW0603 - the only state of a tiny program
    text = b""
    while True:
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            _status = os.waitstatus_to_exitcode(status)
            return None
        if os.getppid() != parent:
            return "fast"
        if select.select([0], [], [], _LOOK_EVERY)[0]:
            piece = os.read(0, 100)
            if not piece:
                return "fast"
            text += piece
            if text.endswith(b"\n"):
                return text.decode().strip()


def _stop(server: int, mode: str) -> int:
    os.kill(server, _SIGNALS.get(mode, signal.SIGINT))
    deadline = time.monotonic() + _STOP_LIMIT
    while time.monotonic() < deadline:
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(server, signal.SIGQUIT)
    return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
