"""How the listener connects: a connection of its own that notices when it is dead."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

_NOT_FOR_THE_SERVER = frozenset(
    {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}
)

_DEFAULTS: Mapping[str, str] = {
    # Where the kernel can tell that the other side is gone, it tells within 25 seconds.
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "connect_timeout": "10",
    "fallback_application_name": "alkstore listener",
}


def connector(
    conninfo: str,
    arguments: Mapping[str, Any],
    connection_class: type[psycopg.Connection[Any]] = psycopg.Connection,
) -> Callable[[], psycopg.Connection[Any]]:
    """Return a function that makes the listener's connections.

    Args:
        conninfo: Where to connect to. Set to a direct address where the pool goes through
            a transaction pooler: such a pooler delivers no notifications.
        arguments: Connection arguments, as `psycopg.connect` takes them. What they and
            *conninfo* say about keepalives and time limits holds; what they leave open is
            set so that a dead connection is noticed.
        connection_class: Makes the connection.
    """
    given = {
        key: value
        for key, value in arguments.items()
        if key not in _NOT_FOR_THE_SERVER and value is not None
    }
    known = conninfo_to_dict(conninfo, **given)
    for key, value in _DEFAULTS.items():
        if key == "connect_timeout" and "PGCONNECT_TIMEOUT" in os.environ:
            continue
        if key not in known:
            given[key] = value

    given["client_encoding"] = "UTF8"  # a wake is the name of a mechanism, any text

    def connect() -> psycopg.Connection[Any]:
        return connection_class.connect(conninfo, autocommit=True, **given)

    return connect


def connector_beside(
    lent: ConnectionPool[Any] | None, conninfo: str
) -> Callable[[], psycopg.Connection[Any]]:
    """Return what opens the listener's connection beside a pool.

    Args:
        lent: The application's pool, or ``None``.
        conninfo: Where to connect to; empty: where *lent* goes.
    """
    if lent is None or conninfo:
        return connector(conninfo, {})

    def connect() -> psycopg.Connection[Any]:
        # Newer pools take functions here, for passwords that change.
        where, arguments = _called(lent.conninfo), _called(lent.kwargs)
        return connector(where, arguments or {}, lent.connection_class)()

    return connect


def _called(given: Any) -> Any:
    return given() if callable(given) else given
