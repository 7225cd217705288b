"""Connections beside the pool: for the migrator and the listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from alkstore_postgres.database.pools import AnyPool

Connect = Callable[[], psycopg.Connection[Any]]

_POOL_ONLY = frozenset({"autocommit", "row_factory", "cursor_factory", "context"})


def connector(conninfo: str, **arguments: Any) -> Connect:
    """Return a function that opens a connection in autocommit mode."""

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, **arguments)

    return connect


def connector_like(pool: AnyPool) -> Connect:
    """Return a function that connects to where *pool* connects to."""

    def connect() -> psycopg.Connection[Any]:
        # Newer pools take functions here, for passwords that change.
        conninfo: Any = pool.conninfo
        arguments: Any = pool.kwargs
        return connector(
            conninfo() if callable(conninfo) else conninfo,
            **{
                name: value
                for name, value in (arguments() if callable(arguments) else arguments or {}).items()
                if name not in _POOL_ONLY and name != "prepare_threshold"
            },
        )()

    return connect
