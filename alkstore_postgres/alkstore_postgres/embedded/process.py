"""The server process over a data directory."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.address import HOST, free_port, why_no_answer
from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.filelock import FileLock
from alkstore_postgres.embedded.home import Home
from alkstore_postgres.embedded.launching import launch
from alkstore_postgres.embedded.pidfile import clear_stale_pid_file

# Seconds until a server that says nothing is given up; recovery after a crash takes a while.
_START_LIMIT = 60.0
# Seconds for a server that says it is ready, when something keeps this process from it.
_ANSWER_LIMIT = 10.0
_READY = "ready to accept connections"
_PORT_TRIES = 10
# Seconds for a port that must be the same as before, while a client of somebody has it.
_SAME_PORT_LIMIT = 10.0
_TAIL_LINES = 15


class ServerProcess:
    """At most one server over the data of *home*, run by a launcher beside it.

    Args:
        home: Its folder, with a data directory.
        account: Who it runs as.
        binaries: The folder with the programs.
        settings: Server settings, by name.
    """

    def __init__(
        self, home: Home, account: Account, binaries: Path, settings: Mapping[str, str]
    ) -> None:
        self._home = home
        self._account = account
        self._binaries = binaries
        self._settings = dict(settings)
        self._launcher: subprocess.Popen[bytes] | None = None
        self._announced: FileLock | None = None

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self._launcher is not None and self._launcher.poll() is None

    def start(self, port: int | None = None) -> int:
        """Start the server, wait until it answers, and announce it; return its port.

        Whoever calls is alone with the home.

        Args:
            port: Where to listen; ``None``: a port that is free.

        Raises:
            EmbeddedServerError: It did not come up; the message holds the log's end.
        """
        tries = 0
        deadline = time.monotonic() + _SAME_PORT_LIMIT
        while True:
            tries += 1
            chosen = free_port() if port is None else port
            offset = self._home.log.stat().st_size if self._home.log.exists() else 0
            self._launch(chosen)
            trouble = self._why_not_up(chosen, offset)
            if trouble is None:
                self._announced = self._home.announce(chosen)
                return chosen
            said = self._said_since(offset)
            if "could not bind" in said:
                # Somebody else took the port meanwhile.
                if port is None and tries < _PORT_TRIES:
                    continue
                if port is not None and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
            if (
                "postmaster.pid" in said
                and tries < _PORT_TRIES
                and clear_stale_pid_file(self._home.data)
            ):
                continue
            msg = f"{trouble}; the end of its log:\n{_tail(said)}"
            raise EmbeddedServerError(msg)

    def stop(self, mode: str) -> None:
        """Stop the server, if it runs, and wait until it is gone.

        When the wait is interrupted it can be taken up again by another call.

        Args:
            mode: ``"fast"`` (connections are ended), ``"immediate"`` (as a crash), or
                ``"smart"`` (it waits for the clients, 20 seconds at most).
        """
        launcher = self._launcher
        if launcher is None or launcher.stdin is None:
            return
        if self.running:
            self._home.withdraw()
        with contextlib.suppress(OSError):  # it ended by itself
            launcher.stdin.write(f"{mode}\n".encode())
            launcher.stdin.flush()
        launcher.wait()
        with contextlib.suppress(OSError):
            launcher.stdin.close()
        self._launcher = None
        announced, self._announced = self._announced, None
        if announced is not None:
            announced.close()

    def forget(self) -> None:
        """Leave the server to the parent of a fork, whose child of it this is not."""
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.returncode = 0  # nothing to wait for here
            if launcher.stdin is not None:
                launcher.stdin.close()

    def _launch(self, port: int) -> None:
        options = {
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            **self._settings,
            "port": str(port),
        }
        command = [str(self._binaries / "postgres"), "-D", str(self._home.data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with self._home.log.open("ab") as log:
            self._home.log.chmod(0o600)
            self._launcher = launch(self._home, self._account, command, output=log)

    def _why_not_up(self, port: int, offset: int) -> str | None:
        """Wait until it answers; when it does not, stop it and say why not."""
        deadline = time.monotonic() + _START_LIMIT
        ready = False
        while self.running:
            reason = why_no_answer(port, self._home.password, self._home.data, patience=2)
            if reason is None:
                return None
            if not ready and _READY in self._said_since(offset):
                ready = True
                deadline = min(deadline, time.monotonic() + _ANSWER_LIMIT)
            if time.monotonic() > deadline:
                self.stop("immediate")
                return f"the PostgreSQL server does not answer: {reason}"
            time.sleep(0.01)
        self.stop("fast")  # it is gone: only the pipe is closed
        return "the PostgreSQL server did not start"

    def _said_since(self, offset: int) -> str:
        with self._home.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "replace")


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:]) or "(it said nothing)"
