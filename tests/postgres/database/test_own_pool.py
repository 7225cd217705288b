"""The pool that `open` builds: what surrounds it plays no part."""

from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo

import alkstore
import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.own_connection import OwnConnection
from tests.support.waiting import wait_until

TEXT = "é 字 🦉"


def use(store: PostgresStore) -> None:
    with store:
        queue = store.queue(TEXT)
        with store.listen(TEXT) as listener:
            queue.enqueue(TEXT)
            assert listener.wait(10) == alkstore.Wake(TEXT)
        (job,) = queue.claim(TEXT)
        assert (job.queue, job.payload) == (TEXT, TEXT)
        assert job.fail(TEXT)
        assert queue.dead()[0].error == TEXT
        with store.transaction() as own:
            store.enqueue_tx(own, TEXT, TEXT)
        runner = store.start_worker(TEXT, lambda _: None)
        wait_until(lambda: queue.size() == 0)
        assert runner.stop(5)


def test_it_speaks_utf8_whatever_the_environment_says(
    conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    use(alkstore_postgres.open(conninfo, schema))


def test_it_speaks_utf8_whatever_the_connection_string_says(conninfo: str, schema: str) -> None:
    where = make_conninfo(conninfo, client_encoding="latin1")
    alkstore_postgres.migrate(where, schema)
    use(alkstore_postgres.open(where, schema, listen_conninfo=where))


@pytest.mark.parametrize("threshold", [0, None])
def test_an_idle_connection_keeps_no_result(
    conninfo: str, schema: str, threshold: int | None
) -> None:
    """A claim of a hundred large payloads would stay in memory for each connection."""
    with alkstore_postgres.open(
        conninfo, schema, min_size=1, max_size=1, prepare_threshold=threshold
    ) as store:
        queue = store.queue(TEXT)
        large = "x" * 2**19
        job = queue.enqueue_many([large] * 3)[0]
        # Each of them: rows that are all read, one row, none, a number.
        for use in (
            lambda: queue.claim(TEXT, 2),
            lambda: store.get_job(job),
            lambda: store.queue("none").claim(TEXT, 2),
            lambda: queue.cancel(job),
            lambda: queue.enqueue(large),
        ):
            use()
            with store._parts.database.connection() as connection:
                assert isinstance(connection, OwnConnection)
                cursor = connection.engine_cursor
                for kept in (cursor.pgresult, cursor._answer, cursor._kept.pgresult):
                    assert kept is None or kept.ntuples == 0
