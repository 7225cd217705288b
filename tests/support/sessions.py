"""Sessions of a store, seen and killed from the server's side."""

from __future__ import annotations

from typing import Any

import psycopg


def kill_sessions(connection: psycopg.Connection[Any], schema: str) -> int:
    """Terminate the sessions whose last statement was about *schema*, save our own.

    Returns:
        How many there were.
    """
    cursor = connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        " AND position(%s in query) > 0",
        [schema],
    )
    return cursor.rowcount
