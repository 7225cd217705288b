"""A running embedded server, private or shared by all who name its directory."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

from alkstore._typing import Self
from alkstore_postgres.embedded.account import choose_account, reachable_binaries
from alkstore_postgres.embedded.binaries import find_binaries
from alkstore_postgres.embedded.cluster import Cluster, answers, url_of
from alkstore_postgres.embedded.errors import EmbeddedServerError

_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_STOP_MODES = ("smart", "fast", "immediate")


class EmbeddedServer:
    """A PostgreSQL server that lives as long as the process that started it.

    Use it as a context manager. It listens on 127.0.0.1 only and has a random password.
    It stops with `stop`, at the end of the ``with`` block, at the interpreter's exit, and
    within a second when the process is killed (noticed by a small process beside it; on
    Linux the kernel sees to it even when that is killed too). A forked child never stops
    its parent's server.

    Attributes:
        directory: Where data and log are.
        port: Where it listens.
        shared: Whether another object, here or in another process, started it. Then
            `stop` only lets go of it; when its owner stops it, it is gone for all.
    """

    def __init__(
        self, directory: Path, cluster: Cluster, port: int, *, shared: bool, temporary: bool
    ) -> None:
        self.directory = directory
        self.port = port
        self.shared = shared
        self._cluster = cluster
        self._temporary = temporary
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._over = False
        if not shared:
            atexit.register(self.stop)

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``, for psycopg or any other client."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of another database."""
        return url_of(self.port, self._cluster.password, database)

    def create_database(self, name: str) -> str:
        """Create a database and return its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_of(name)

    def halt(self, mode: str = "fast") -> None:
        """Take the server down, to `resume` it later; for tests of outages.

        Args:
            mode: ``"fast"``, ``"immediate"`` (as a crash) or ``"smart"``.

        Raises:
            EmbeddedServerError: It belongs to another, or *mode* is none of these.
        """
        if mode not in _STOP_MODES:
            msg = f"mode must be one of {', '.join(_STOP_MODES)}, not {mode!a}"
            raise EmbeddedServerError(msg)
        self._require_own()
        with self._lock:
            self._cluster.stop(mode)

    def resume(self) -> None:
        """Bring a server that was halted up again, at the same port."""
        self._require_own()
        with self._lock:
            self._cluster.start(self.port)

    def restart(self, mode: str = "fast") -> None:
        """Take the server down and bring it up again, at the same port."""
        with self._lock:
            self.halt(mode)
            self.resume()

    def stop(self) -> None:
        """Stop the server, or let go of a shared one. May be repeated."""
        if self._pid != os.getpid():
            self._cluster.forget()
            return
        with self._lock:
            if self._over:
                return
            self._over = True
            if self.shared:
                return
            atexit.unregister(self.stop)
            with _alone_with(self.directory):
                (self.directory / _STATE).unlink(missing_ok=True)
                self._cluster.stop("fast")
            if self._temporary:
                shutil.rmtree(self.directory, ignore_errors=True)

    def _require_own(self) -> None:
        if self.shared or self._pid != os.getpid():
            msg = "this server was started by another; only its owner can take it down"
            raise EmbeddedServerError(msg)

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


_STATE = "running.json"


def server(
    directory: Path | str | None = None,
    *,
    bin_directory: Path | str | None = None,
    settings: Mapping[str, str] | None = None,
) -> EmbeddedServer:
    """Start a real PostgreSQL server, or join the one that runs over *directory*.

    Whoever asks for a directory whose server runs already, in this or in another process,
    shares it; whoever asks while it starts waits. Data in a named directory stay for the
    next start, also after a kill.

    Args:
        directory: Where data and log live; ``None``: a private temporary directory that
            is removed at the end.
        bin_directory: The programs of another installation; ``None``: those of the
            ``embedded`` extra.
        settings: Server settings, by name, such as ``{"max_connections": "200"}``;
            without influence on a server that is shared.

    Returns:
        The running server.

    Raises:
        EmbeddedServerError: The extra is missing, a setting is impossible, or the server
            could not be made or started; the message tells what it said.
    """
    chosen = {} if settings is None else dict(settings)
    for name, value in chosen.items():
        if not _SETTING.fullmatch(name) or not isinstance(value, str):
            msg = f"settings maps names to str values, {name!a} is not of that kind"
            raise EmbeddedServerError(msg)
    binaries = find_binaries(bin_directory)
    account = choose_account()
    home = _home(directory)
    try:
        account.require_way_to(home / "data")
        with _alone_with(home):
            programs = reachable_binaries(binaries, account, home)
            cluster = Cluster(home, programs, account, chosen)
            port = _running(home, cluster)
            shared = port is not None
            if port is None:
                cluster.initialize()
                port = cluster.start()
                (home / _STATE).write_text(json.dumps({"port": port}), encoding="ascii")
    except BaseException:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
        raise
    return EmbeddedServer(home, cluster, port, shared=shared, temporary=directory is None)


def _home(directory: Path | str | None) -> Path:
    if directory is None:
        home = Path(tempfile.mkdtemp(prefix="alkstore-")).resolve()
        # The server's account has to come in; the data directory itself is private.
        home.chmod(0o755)
    else:
        home = Path(directory).absolute()
        home.mkdir(parents=True, exist_ok=True)
    return home


def _running(home: Path, cluster: Cluster) -> int | None:
    """Return the port of the server that runs over *home*, or ``None``."""
    try:
        port = int(json.loads((home / _STATE).read_text(encoding="ascii"))["port"])
        password = cluster.password
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return port if answers(port, password, cluster.data) else None


@contextlib.contextmanager
def _alone_with(home: Path) -> Iterator[None]:
    """Keep all others, in any process, from starting or stopping over *home*."""
    with (home / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
