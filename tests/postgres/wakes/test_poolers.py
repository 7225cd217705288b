"""Field case B74: behind a transaction pooler a listener hears nothing, and says so."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.waiting import wait_until

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")

Pooler = Callable[[str], str]


@pytest.fixture
def pooler(conninfo: str, tmp_path: Path) -> Iterator[Pooler]:
    """Start a pooler of the given mode; return where it is."""
    known = conninfo_to_dict(conninfo)
    names = ("host", "port", "user", "password")
    server = " ".join(f"{name}={known[name]}" for name in names if name in known)
    running: list[subprocess.Popen[bytes]] = []

    def start(mode: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        settings = tmp_path / f"{mode}.ini"
        settings.write_text(
            f"[databases]\n* = {server}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
            f"unix_socket_dir =\npool_mode = {mode}\n"
        )
        unprivileged: dict[str, Any] = {}
        if os.geteuid() == 0:
            for folder in (tmp_path, *tmp_path.parents[:2]):
                folder.chmod(0o755)
            unprivileged = {"user": "nobody", "extra_groups": []}
        assert PGBOUNCER is not None
        running.append(
            subprocess.Popen(
                [PGBOUNCER, "-q", str(settings)], stderr=subprocess.DEVNULL, **unprivileged
            )
        )
        where = make_conninfo(conninfo, host="127.0.0.1", port=port, sslmode="disable")
        wait_until(lambda: accepts(port))
        return where

    yield start
    for process in running:
        process.terminate()
        process.wait(10)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_a_transaction_pooler_is_detected_told_once_and_left_clean(
    pooler: Pooler,
    schema: str,
    connection: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = pooler("transaction")
    hub = WakeHub(connector(where, {}), schema, deaf_pause=0.1)
    hub.attach("x", lambda _name: None)
    try:
        wait_until(lambda: hub.is_deaf, 10)
        time.sleep(3)
    finally:
        hub.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "direct address" in caplog.text
    # No server connection of the pool was left listening to the store's wakes.
    with psycopg.connect(where, autocommit=True, prepare_threshold=None) as pooled:
        channels = pooled.execute("SELECT pg_listening_channels()").fetchall()
    assert (wake_channel(schema),) not in channels
    assert len(channels) <= 1  # the one that the close interrupted


def test_a_session_pooler_hears(
    pooler: Pooler, schema: str, connection: psycopg.Connection[Any]
) -> None:
    heard: list[str] = []
    hub = WakeHub(connector(pooler("session"), {}), schema)
    hub.attach("x", heard.append)
    try:
        wait_until(lambda: heard == ["x"])
        connection.execute("SELECT pg_notify(%s, 'x')", [wake_channel(schema)])
        wait_until(lambda: heard == ["x", "x"])
    finally:
        hub.close()
