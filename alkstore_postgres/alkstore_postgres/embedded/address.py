"""Where a server listens, and whether it is the right one."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote

import psycopg

USER = "postgres"
HOST = "127.0.0.1"


def url_of(port: int, password: str, database: str) -> str:
    """Return the connection URL of a database."""
    return f"postgresql://{USER}:{password}@{HOST}:{port}/{quote(database, safe='')}"


def answers(port: int, password: str, data: Path, patience: int = 10) -> bool:
    """Return whether the server at *port* is the one over the directory *data*.

    Args:
        port: Where to ask.
        password: The superuser's.
        data: The data directory.
        patience: How many seconds it may take to answer, at least 2.
    """
    try:
        with psycopg.connect(
            url_of(port, password, "postgres"),
            # Said here, so that the environment does not say otherwise.
            hostaddr=HOST,
            sslmode="disable",
            gssencmode="disable",
            options="",
            connect_timeout=patience,
            autocommit=True,
        ) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.Error:
        return False
    return row is not None and Path(row[0]).resolve() == data.resolve()


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
