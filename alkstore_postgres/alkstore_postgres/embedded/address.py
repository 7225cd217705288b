"""Where a server listens, and whether it is the right one."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import quote

import psycopg

USER = "postgres"
HOST = "127.0.0.1"


def url_of(port: int, password: str, database: str) -> str:
    """Return the connection URL of a database."""
    return f"postgresql://{USER}:{password}@{HOST}:{port}/{quote(database, safe='')}"


def why_no_answer(port: int, password: str, data: Path, patience: int = 10) -> str | None:
    """Say why the server at *port* is not the one over the directory *data*, if it is not.

    Args:
        port: Where to ask.
        password: The superuser's.
        data: The data directory.
        patience: How many seconds it may take to answer, at least 2.

    Returns:
        ``None`` when it is.
    """
    try:
        with psycopg.connect(
            url_of(port, password, "postgres"),
            # Said here, so that the environment does not say otherwise.
            hostaddr=HOST,
            sslmode="disable",
            gssencmode="disable",
            channel_binding="disable",
            target_session_attrs="any",
            options="",
            # No conversion: a path may be any bytes.
            client_encoding="SQL_ASCII",
            connect_timeout=patience,
            autocommit=True,
        ) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.Error as error:
        return str(error).strip()
    shown = os.fsdecode(row[0]) if row is not None else ""
    if Path(shown).resolve() == data.resolve():
        return None
    return f"a server over another directory listens at port {port}"


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
