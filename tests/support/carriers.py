"""Transactions of every kind that the seam joins, driven alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import psycopg
import psycopg2  # type: ignore[import-untyped]
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import orm


class UndoError(Exception):
    """Raised inside a savepoint to roll it back."""


class Carrier(Protocol):
    """A transaction of the application.

    Attributes:
        tx: What is handed to the store.
    """

    tx: Any

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of the application; return its rows."""
        ...

    def commit(self) -> None:
        """Commit."""
        ...

    def rollback(self) -> None:
        """Roll back."""
        ...

    def savepoint(self) -> AbstractContextManager[Any]:
        """Return a block that is rolled back by an exception, and only it."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def pid_of(carrier: Carrier) -> int:
    """Return the number of the server's process for the connection."""
    pid: int = carrier.run("SELECT pg_backend_pid()")[0][0]
    return pid


class PsycopgCarrier:
    """A psycopg connection, or a cursor of one."""

    def __init__(self, conninfo: str, *, cursor: bool = False, **options: Any) -> None:
        self.connection = psycopg.connect(conninfo, **options)
        self.tx = self.connection.cursor() if cursor else self.connection

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.Cursor(self.connection) as cursor:
            cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def savepoint(self) -> AbstractContextManager[Any]:
        return self.connection.transaction()

    def close(self) -> None:
        self.connection.close()


class Psycopg2Carrier:
    """A psycopg2 connection, or a cursor of one."""

    def __init__(self, conninfo: str, *, cursor: bool = False, **options: Any) -> None:
        self.connection = psycopg2.connect(conninfo, **options)
        self.tx = self.connection.cursor() if cursor else self.connection

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.run("SAVEPOINT here")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK TO SAVEPOINT here")
            raise

    def close(self) -> None:
        self.connection.close()


class SqlalchemyCarrier:
    """A ``Connection``, ``Session`` or ``scoped_session`` of SQLAlchemy."""

    def __init__(self, conninfo: str, driver: str, kind: str, **options: Any) -> None:
        self.engine = sqlalchemy.create_engine(engine_url(conninfo, driver), **options)
        makers: dict[str, Callable[[], Any]] = {
            "connection": self.engine.connect,
            "session": lambda: orm.Session(self.engine),
            "scoped": lambda: orm.scoped_session(orm.sessionmaker(self.engine)),
        }
        self.tx = makers[kind]()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        result = self.tx.execute(sqlalchemy.text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []

    def commit(self) -> None:
        self.tx.commit()

    def rollback(self) -> None:
        self.tx.rollback()

    def savepoint(self) -> AbstractContextManager[Any]:
        block: AbstractContextManager[Any] = self.tx.begin_nested()
        return block

    def close(self) -> None:
        self.tx.close()
        self.engine.dispose()


class DjangoCarrier:
    """A connection of Django inside ``atomic``."""

    def __init__(self, alias: str) -> None:
        from django.db import connections, transaction  # type: ignore[import-untyped]

        self.tx = connections[alias]
        self._atomic: Callable[[], Any] = lambda: transaction.atomic(using=alias)
        self._block: Any = None
        self._enter()

    def _enter(self) -> None:
        self._block = self._atomic()
        self._block.__enter__()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        if self._block is None:
            self._enter()
        with self.tx.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        block, self._block = self._block, None
        block.__exit__(None, None, None)

    def rollback(self) -> None:
        block, self._block = self._block, None
        block.__exit__(UndoError, UndoError(), None)

    def savepoint(self) -> AbstractContextManager[Any]:
        block: AbstractContextManager[Any] = self._atomic()
        return block

    def close(self) -> None:
        if self._block is not None:
            self.rollback()
        self.tx.close()


Make = Callable[[str], Carrier]

MAKERS: dict[str, Make] = {
    "psycopg": PsycopgCarrier,
    "psycopg cursor": lambda url: PsycopgCarrier(url, cursor=True),
    "psycopg2": Psycopg2Carrier,
    "psycopg2 cursor": lambda url: Psycopg2Carrier(url, cursor=True),
    "SQLAlchemy connection, psycopg": lambda url: SqlalchemyCarrier(url, "psycopg", "connection"),
    "SQLAlchemy session, psycopg": lambda url: SqlalchemyCarrier(url, "psycopg", "session"),
    "SQLAlchemy connection, psycopg2": lambda url: SqlalchemyCarrier(url, "psycopg2", "connection"),
    "SQLAlchemy session, psycopg2": lambda url: SqlalchemyCarrier(url, "psycopg2", "session"),
    "SQLAlchemy scoped_session": lambda url: SqlalchemyCarrier(url, "psycopg", "scoped"),
    "Django": lambda url: DjangoCarrier(configure_django(url)),
}


def engine_url(conninfo: str, driver: str) -> sqlalchemy.URL:
    """Return the URL of SQLAlchemy for the same database."""
    known = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=known.pop("user", None),
        password=known.pop("password", None),
        host=known.pop("host", None),
        port=int(known.pop("port", "5432")),
        database=known.pop("dbname", None),
    )


def django_database(conninfo: str, **options: Any) -> dict[str, Any]:
    """Return the settings of Django for the same database."""
    known = conninfo_to_dict(conninfo)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": known.get("dbname"),
        "USER": known.get("user"),
        "PASSWORD": known.get("password"),
        "HOST": known.get("host"),
        "PORT": known.get("port"),
        **options,
    }


def configure_django(conninfo: str) -> str:
    """Configure Django for a database; return its alias.

    Settings are for a whole process; they are led to another database with each call.
    """
    from django.conf import settings  # type: ignore[import-untyped]

    databases = {
        "default": django_database(conninfo),
        "other": django_database(conninfo),
        "manual": django_database(conninfo, AUTOCOMMIT=False),
        "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    }
    if not settings.configured:
        settings.configure(DATABASES=databases, USE_TZ=True)
        import django  # type: ignore[import-untyped]

        django.setup()
        return "default"
    from django.db import connections

    connections.close_all()
    for alias, database in databases.items():
        connections.settings[alias].update(database)
    return "default"
