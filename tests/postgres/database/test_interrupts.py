"""A Ctrl-C while a connection is checked out takes none from the pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from alkstore_postgres import PostgresStore
from alkstore_postgres.database import database

OpenStore = Callable[..., PostgresStore]

CALLS: dict[str, Callable[[PostgresStore], object]] = {
    "a statement": lambda store: store.queue("mail").enqueue(1),
    "a transaction": lambda store: store.queue("mail").enqueue_many([1, 2]),
    "a loan": lambda store: store.transaction().__enter__(),
}


@pytest.fixture(params=["own", "lent"])
def of_two(
    request: pytest.FixtureRequest, open_store: OpenStore, conninfo: str, schema: str
) -> Any:
    """A store over two connections."""
    if request.param == "own":
        yield open_store(min_size=2, max_size=2, timeout=5)
        return
    open_store().close()
    with ConnectionPool(conninfo, min_size=2, max_size=2, open=True) as pool:
        yield PostgresStore(pool, schema, timeout=5)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("place", ["is_dead", "close"])
def test_an_interrupted_check_out_gives_its_connection_back(
    of_two: PostgresStore, monkeypatch: pytest.MonkeyPatch, call: str, place: str
) -> None:
    of_two.queue("mail").enqueue(0)

    def interrupted(_: psycopg.Connection[Any]) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if place == "close":  # of one that turned out to be dead
            patched.setattr(database, "is_dead", lambda _: True)
            patched.setattr(psycopg.Connection, "close", interrupted)
        else:
            patched.setattr(database, "is_dead", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                CALLS[call](of_two)
    with of_two.transaction(), of_two.transaction():
        pass
    assert of_two.queue("mail").size() == 1
