"""Fixtures for the tests of wakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from alkstore_postgres.wakes.connect import connector
from alkstore_postgres.wakes.hub import WakeHub
from tests.support.hubs import MakeHub
from tests.support.proxy import Proxy


@pytest.fixture
def make_hub(conninfo: str, schema: str) -> Iterator[MakeHub]:
    hubs = []

    def make(where: str = conninfo, **timing: float) -> WakeHub:
        named = make_conninfo(where, application_name=schema)
        hub = WakeHub(connector(named, {}), schema, **timing)
        hubs.append(hub)
        return hub

    yield make
    for hub in hubs:
        hub.close()


@pytest.fixture
def through_proxy(proxy: Proxy) -> str:
    return proxy.conninfo
