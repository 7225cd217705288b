"""A data directory and the server process over it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.errors import EmbeddedServerError

USER = "postgres"

_START_LIMIT = 30.0
_PORT_TRIES = 10
_TAIL_LINES = 15


class Cluster:
    """One data directory, and at most one server over it at a time.

    Args:
        home: The folder that holds data, log and password; it exists.
        binaries: The folder with the server's programs.
        account: Who the server runs as.
        settings: Server settings, by name.
    """

    def __init__(
        self, home: Path, binaries: Path, account: Account, settings: Mapping[str, str]
    ) -> None:
        self.data = home / "data"
        self._log = home / "server.log"
        self._password_file = home / "password"
        self._binaries = binaries
        self._account = account
        self._settings = dict(settings)
        self._launcher: subprocess.Popen[bytes] | None = None

    @property
    def password(self) -> str:
        """The password of the superuser: other users of the machine do not know it."""
        return self._password_file.read_text(encoding="ascii").strip()

    @property
    def running(self) -> bool:
        """Whether the server process that was started here is alive."""
        return self._launcher is not None and self._launcher.poll() is None

    def initialize(self) -> None:
        """Make the data directory unless it is there, whole.

        Raises:
            EmbeddedServerError: It could not be made; the message holds the output.
        """
        if (self.data / "PG_VERSION").exists() and (self.data / "whole").exists():
            return
        if self.data.exists():
            # An earlier attempt was cut short: nothing was ever stored in it.
            shutil.rmtree(self.data)
        if not self._password_file.exists():
            self._password_file.touch(mode=0o600)
            self._password_file.write_text(secrets.token_urlsafe(16) + "\n", encoding="ascii")
        self._account.own(self._password_file)
        self.data.mkdir(mode=0o700)
        self._account.own(self.data)
        done = subprocess.run(  # noqa: S603 - our own arguments
            [
                str(self._binaries / "initdb"),
                f"--pgdata={self.data}",
                f"--username={USER}",
                "--auth=password",
                f"--pwfile={self._password_file}",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/" if os.name == "posix" else None,
            check=False,
            **self._account.arguments(),
        )
        if done.returncode != 0:
            output = done.stdout.decode("utf-8", "replace").strip()
            msg = f"initdb failed with the status {done.returncode}:\n{output}"
            raise EmbeddedServerError(msg)
        (self.data / "whole").touch()
        self._account.own(self.data)

    def start(self, port: int | None = None) -> int:
        """Start the server and wait until it answers; return its port.

        Args:
            port: Where to listen; ``None``: a port that is free.

        Raises:
            EmbeddedServerError: It did not come up; the message holds the log's end.
        """
        for _ in range(_PORT_TRIES):
            chosen = free_port() if port is None else port
            offset = self._log.stat().st_size if self._log.exists() else 0
            self._launch(chosen)
            if self._wait(chosen):
                return chosen
            said = self._said_since(offset)
            if port is None and "could not bind" in said:
                continue  # somebody else took the port meanwhile
            if "postmaster.pid" in said and self._clear_stale_pid():
                continue
            msg = f"the PostgreSQL server did not start; the end of its log:\n{_tail(said)}"
            raise EmbeddedServerError(msg)
        msg = f"no port could be had in {_PORT_TRIES} tries"
        raise EmbeddedServerError(msg)

    def stop(self, mode: str) -> None:
        """Stop the server that was started here, if it runs.

        Args:
            mode: ``"fast"`` (connections are ended), ``"immediate"`` (as a crash), or
                ``"smart"`` (it waits for the clients).
        """
        launcher, self._launcher = self._launcher, None
        if launcher is None:
            return
        assert launcher.stdin is not None  # noqa: S101 - it was asked for
        with contextlib.suppress(OSError):  # it ended by itself
            launcher.stdin.write(f"{mode}\n".encode())
            launcher.stdin.flush()
        launcher.wait()
        with contextlib.suppress(OSError):
            launcher.stdin.close()

    def forget(self) -> None:
        """Leave the process to the parent of a fork."""
        self._launcher = None

    def _launch(self, port: int) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            **self._settings,
        }
        command = [str(self._binaries / "postgres"), "-D", str(self.data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        order = {
            "parent": os.getpid(),
            "command": command,
            "log": str(self._log),
            "uid": self._account.uid,
            "gid": self._account.gid,
        }
        self._log.touch(mode=0o600)
        self._account.own(self._log)
        self._launcher = subprocess.Popen(  # noqa: S603 - our own arguments
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("launcher.py")),
                json.dumps(order),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _wait(self, port: int) -> bool:
        deadline = time.monotonic() + _START_LIMIT
        while self.running:
            if answers(port, self.password, self.data):
                return True
            if time.monotonic() > deadline:
                self.stop("immediate")
                return False
            time.sleep(0.02)
        return False

    def _said_since(self, offset: int) -> str:
        with self._log.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "replace")

    def _clear_stale_pid(self) -> bool:
        """Remove a pid file whose server is gone, its number taken by a stranger.

        Nobody is signalled. Returns whether to try again.
        """
        file = self.data / "postmaster.pid"
        try:
            pid = int(file.read_text(encoding="ascii").split()[0])
        except FileNotFoundError:
            return True  # the server of a killed parent has ended meanwhile
        except (OSError, ValueError, IndexError):
            return False
        deadline = time.monotonic() + _START_LIMIT
        while _is_server_of(pid, self.data):
            # The server of a killed parent is on its way out.
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        file.unlink(missing_ok=True)
        return True


def url_of(port: int, password: str, database: str) -> str:
    """Return the connection URL of a database."""
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{database}"


def answers(port: int, password: str, data: Path) -> bool:
    """Return whether the server at *port* is the one over the directory *data*."""
    try:
        with psycopg.connect(
            url_of(port, password, "postgres"), connect_timeout=5, autocommit=True
        ) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.Error:
        return False
    return row is not None and Path(row[0]).resolve() == data.resolve()


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _is_server_of(pid: int, data: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return False
    return "postgres" in command and str(data) in command


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])
