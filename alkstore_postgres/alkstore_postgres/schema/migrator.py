"""Forward-only migrations, each in a transaction, under an advisory lock."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql

from alkstore.errors import SchemaError, SchemaOutdated, SchemaTooNew
from alkstore_postgres.database.client_encoding import identifier
from alkstore_postgres.database.errors import translated
from alkstore_postgres.database.session import Session, read_committed
from alkstore_postgres.database.statements import Statements

OLDEST_SERVER = 140_000
"""The oldest PostgreSQL that is supported, as libpq writes versions."""

COMPATIBLE_FROM = {1: 1}
"""For each schema version, the oldest code version that works with it: code that finds a
newer schema goes on when its own version is not older than this."""

_FILE = re.compile(r"(?P<version>\d{4})_(?P<name>\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    text: str

    def render(self, schema: str) -> bytes:
        """Return the SQL for *schema*."""
        text = sql.SQL(self.text)  # pyright: ignore[reportArgumentType] - from a file
        return text.format(schema=identifier(schema)).as_bytes(None)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations, in order."""
    found = []
    for entry in files(__package__ or "").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match:
            text = entry.read_text(encoding="utf-8")
            found.append(Migration(int(match["version"]), match["name"], text))
    return tuple(sorted(found, key=lambda migration: migration.version))


class Migrator:
    """Brings one schema up to date over one connection.

    Args:
        connection: A connection outside any transaction.
        schema: The schema's name, unquoted.
    """

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._session = Session(connection, prepare=False)
        self._sql = Statements(__package__, "migrator.sql", schema)

    def check(self) -> bool:
        """Return whether the schema fits this code; ``False`` when it must be migrated.

        Raises:
            SchemaTooNew: Newer code has migrated it, beyond what this code works with.
            SchemaError: The server or its encoding is not supported.
        """
        with translated():
            self._check_server()
            version, compatible_from = self._state()
        newest = migrations()[-1].version
        if version > newest and compatible_from > newest:
            msg = (
                f"the schema {self._schema!r} has version {version}, which needs code of version "
                f"{compatible_from} at least; this code has version {newest}: upgrade "
                "alkstore-postgres"
            )
            raise SchemaTooNew(msg)
        return version >= newest

    def require(self) -> None:
        """Do nothing when the schema fits this code.

        Raises:
            SchemaOutdated: It is missing or too old.
            SchemaError: As `check`.
        """
        if not self.check():
            msg = (
                f"the schema {self._schema!r} is missing or older than this code needs: call "
                "alkstore_postgres.migrate(conninfo, schema=...) with a role that may create it, "
                "or open the store with migrate=True"
            )
            raise SchemaOutdated(msg)

    def migrate(self) -> list[str]:
        """Apply what is missing; return the names of the migrations that were applied.

        Any number of processes may call it at once: an advisory lock of the transaction
        lets one work, the others find the work done. A schema that is up to date is left
        alone without any right to change it.

        Raises:
            SchemaError: As `check`.
            DatabaseError: A statement failed; that migration left nothing behind.
        """
        if self.check():
            return []
        applied = []
        for migration in migrations():
            with translated(), self._transaction():
                self._session.execute(self._sql["lock"], {"key": self._lock_key()})
                if self._state()[0] < migration.version:
                    self._apply(migration)
                    applied.append(f"{migration.version:04}_{migration.name}")
        if not applied:
            self.check()  # whoever was first may have been of another version
        return applied

    def _apply(self, migration: Migration) -> None:
        if migration.version == migrations()[0].version:
            # Asked first: CREATE SCHEMA IF NOT EXISTS wants the right even when it exists.
            if not self._session.fetch_value(self._sql["schema_exists"], {"name": self._schema}):
                self._session.execute(self._sql["create_schema"])
            self._session.execute(self._sql["create_migrations"])
        # Several statements in one text: only the simple protocol takes them.
        psycopg.Cursor(self._connection).execute(migration.render(self._schema), prepare=False)
        self._session.execute(
            self._sql["record"],
            {
                "version": migration.version,
                "name": migration.name,
                "compatible_from": COMPATIBLE_FROM[migration.version],
            },
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run a transaction that trusts no setting of the role's.

        Read committed, because what is read after the advisory lock must be what its
        former holder committed.
        """
        with read_committed(self._connection):
            self._session.execute(self._sql["trusted_settings"])
            yield

    def _state(self) -> tuple[int, int]:
        """Return the schema's version and the oldest code that works with it."""
        params = {"schema": self._schema}
        if not self._session.fetch_value(self._sql["migrations_exist"], params):
            return 0, 0
        row = self._session.fetch_one(self._sql["state"])
        return (0, 0) if row is None or row[0] is None else (row[0], row[1])

    def _check_server(self) -> None:
        version = self._connection.info.server_version
        if version < OLDEST_SERVER:
            msg = f"PostgreSQL 14 or newer is needed, this server is {version // 10_000}"
            raise SchemaError(msg)
        encoding = self._session.fetch_value(self._sql["encoding"])
        if encoding != "UTF8":
            msg = f"a database with the encoding UTF8 is needed, this one has {encoding}"
            raise SchemaError(msg)

    def _lock_key(self) -> int:
        digest = hashlib.sha256(b"alkstore migrations " + self._schema.encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)
