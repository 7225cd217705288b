"""Field case B74: behind a transaction pooler a listener hears nothing, and says so."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support import pooler as support
from tests.support.waiting import wait_until

Pooler = Callable[[str], str]


@pytest.fixture
def pooler(conninfo: str) -> Iterator[Pooler]:
    """Start a pooler of the given mode; return where it is."""
    with contextlib.ExitStack() as running:
        yield lambda mode: running.enter_context(support.pooler(conninfo, mode))


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
        wait_until(lambda: hub.state == "deaf", 10)
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
