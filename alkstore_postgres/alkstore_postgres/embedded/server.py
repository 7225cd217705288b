"""A running embedded server, private or shared by all who name its directory."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

from alkstore._typing import Self
from alkstore_postgres.embedded.account import choose_account
from alkstore_postgres.embedded.address import url_of
from alkstore_postgres.embedded.arguments import check_mode, check_path, checked_settings
from alkstore_postgres.embedded.binaries import find_binaries, reachable_binaries
from alkstore_postgres.embedded.cluster import initialize
from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.home import Home
from alkstore_postgres.embedded.process import ServerProcess


class EmbeddedServer:
    """A PostgreSQL server that lives as long as the process that started it.

    Use it as a context manager. It listens on 127.0.0.1 only and has a random password.
    It stops with `stop`, at the end of the ``with`` block, at the interpreter's exit, and
    within a second when the process is killed: a small process beside it notices, and when
    that is killed too, the kernel does (Linux; on macOS such a server stays). A forked
    child may use its parent's server and never stops it.

    Who finds the server of a named directory running shares it: it uses the server, and
    its `stop` only lets go of it. **When the owner stops it, it is gone for all**: sharers
    lose their connections, as with any server that is shut down, and whoever asks for
    the directory again starts it again and owns it then.

    Attributes:
        directory: Where data and log are.
        port: Where it listens; the same after a `restart`.
        shared: Whether another object, here or in another process, started it.
    """

    def __init__(self, home: Home, port: int, process: ServerProcess | None) -> None:
        self.directory = home.path
        self.port = port
        self.shared = process is None
        self._home = home
        self._process = process
        self._password = home.password
        self._pid = os.getpid()
        self._lock = threading.RLock()
        if process is not None:
            atexit.register(self.stop)

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``, for psycopg or any other client."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of another database."""
        return url_of(self.port, self._password, database)

    def create_database(self, name: str) -> str:
        """Create a database and return its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_of(name)

    def halt(self, mode: str = "fast") -> None:
        """Take the server down, to `resume` it later; for tests of outages.

        Whoever asks for its directory meanwhile starts it, at another port.

        Args:
            mode: ``"fast"``, ``"immediate"`` (as a crash) or ``"smart"``.

        Raises:
            EmbeddedServerError: It belongs to another or was stopped, or *mode* is none of
                these.
        """
        check_mode(mode)
        process = self._own()
        with self._lock, self._home.alone():
            process.stop(mode)

    def resume(self) -> None:
        """Bring a server that was halted up again, at the same port.

        Raises:
            EmbeddedServerError: It belongs to another or was stopped, it does not start, or
                another has started it meanwhile.
        """
        process = self._own()
        with self._lock, self._home.alone():
            self._bring_up(process)

    def restart(self, mode: str = "fast") -> None:
        """Take the server down as `halt` does and bring it up again, at the same port."""
        check_mode(mode)
        process = self._own()
        with self._lock, self._home.alone():
            process.stop(mode)
            self._bring_up(process)

    def stop(self) -> None:
        """Stop the server, or let go of a shared one. May be repeated."""
        if self._pid != os.getpid():
            # No lock: the thread that held it may not have come along.
            process, self._process = self._process, None
            if process is not None:
                process.forget()
            return
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            atexit.unregister(self.stop)
            try:
                with contextlib.suppress(OSError), self._home.alone():
                    process.stop("fast")
            finally:
                process.stop("fast")  # when the folder was taken away, or at a second Ctrl-C
                self._home.remove()

    def _bring_up(self, process: ServerProcess) -> None:
        if process.running:
            return
        if self._home.running_port() is not None:
            msg = "another has started the server over this directory meanwhile"
            raise EmbeddedServerError(msg)
        process.start(self.port)

    def _own(self) -> ServerProcess:
        if self._pid != os.getpid() or self.shared:
            msg = "this server was started by another; only its owner can take it down"
            raise EmbeddedServerError(msg)
        process = self._process
        if process is None:
            msg = "this server was stopped"
            raise EmbeddedServerError(msg)
        return process

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()


def server(
    directory: Path | str | None = None,
    *,
    bin_directory: Path | str | None = None,
    settings: Mapping[str, str] | None = None,
) -> EmbeddedServer:
    """Start a real PostgreSQL server, or join the one that runs over *directory*.

    Whoever asks for a directory whose server runs already, in this or in another process,
    shares it (see `EmbeddedServer`); whoever asks while it starts or stops waits. Data in a
    named directory stay for the next start, also after a kill.

    Args:
        directory: Where data and log live: a new or empty folder, or one of an earlier
            start; ``None``: a private temporary folder that is removed at the end.
        bin_directory: The programs of another installation; ``None``: those of the
            ``embedded`` extra.
        settings: Server settings, by name, such as ``{"max_connections": "200"}``;
            without influence on a server that is shared. Nothing is left out for speed
            unless it is said here (``{"fsync": "off"}``).

    Returns:
        The running server.

    Raises:
        EmbeddedServerError: The extra is missing, a setting is impossible, or the server
            could not be made or started; the message tells what it said.
    """
    if os.name != "posix":
        msg = "the embedded server runs on Linux and macOS only"
        raise EmbeddedServerError(msg)
    chosen = checked_settings(settings)
    check_path(directory, "directory")
    check_path(bin_directory, "bin_directory")
    binaries = find_binaries(bin_directory)
    try:
        return _start(directory, binaries, chosen)
    except OSError as error:
        msg = f"the embedded server could not be started: {error}"
        raise EmbeddedServerError(msg) from error


def _start(
    directory: Path | str | None, binaries: Path, settings: Mapping[str, str]
) -> EmbeddedServer:
    home = Home.make_temporary(choose_account(None)) if directory is None else Home.open(directory)
    process: ServerProcess | None = None
    try:
        with home.alone():
            port = home.running_port()
            if port is not None:
                return EmbeddedServer(home, port, None)
            account = choose_account(home.data)
            account.require_way_to(home.data)
            programs = reachable_binaries(binaries, account, home.programs)
            initialize(home, programs, account)
            process = ServerProcess(home, account, programs, settings)
            return EmbeddedServer(home, process.start(), process)
    except BaseException:
        if process is not None:
            process.stop("fast")
        home.remove()
        raise
