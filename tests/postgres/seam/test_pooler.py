"""The seam, and everything else but listening, through PgBouncer in transaction mode."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore import StopToken
from alkstore_postgres import PostgresStore
from tests.support.carriers import MAKERS
from tests.support.catalogue import catalogue
from tests.support.pooler import pooler


@pytest.fixture(scope="module")
def pooled(conninfo: str) -> Iterator[str]:
    with pooler(conninfo, "transaction", pool_size=2) as where:
        yield where


@pytest.fixture
def behind(pooled: str, conninfo: str, schema: str) -> Iterator[PostgresStore]:
    with alkstore_postgres.open(
        pooled, schema, prepare_threshold=None, listen_conninfo=conninfo
    ) as store:
        yield store


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "Django"])
def test_the_seam_works_behind_a_pooler(behind: PostgresStore, pooled: str, kind: str) -> None:
    carriers = [MAKERS[kind](pooled) for _ in range(2)]
    for turn in range(8):
        carrier = carriers[turn % 2]
        carrier.run("SELECT 1")
        behind.enqueue_tx(carrier.tx, "mail", turn)
        if turn < 6:
            carrier.commit()
        else:
            carrier.rollback()
    for carrier in carriers:
        carrier.close()
    assert behind.queue("mail").size() == 6


def test_the_life_of_jobs_locks_and_schedules_works_behind_a_pooler(
    behind: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    """Field case B117: no lock and no setting of a session."""
    queue = behind.queue("mail")
    for turn in range(12):  # beyond any threshold for prepared statements
        queue.enqueue(turn)
    queue.enqueue_many(range(100))
    handles = queue.claim("w", 100)
    assert queue.ack_many(handles[:50]) == 50
    assert handles[50].retry("again")
    assert handles[51].fail("no")
    assert handles[52].release()
    assert handles[53].heartbeat()
    assert len(queue.dead()) == 1
    with behind.lock("lock", ttl=10, timeout=1) as lock:
        assert lock.renew()
    behind.schedule("s", "@every 1h", "mail", 1)
    behind.run_now("s")
    with behind.transaction() as own:
        behind.enqueue_tx(own, "mail", 1)
    assert behind.queue("mail").stats().running == 47
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert connection.execute(locks).fetchone() == (0,)
    stop = StopToken()
    runner = behind.start_scheduler()
    assert runner.stop(5)
    stop.cancel()


def test_nothing_is_left_in_the_sessions_of_the_pooler(
    behind: PostgresStore, pooled: str, schema: str
) -> None:
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as other:
        query = sql.SQL(
            "SELECT pg_backend_pid(), current_setting('search_path'),"
            " current_setting('synchronous_commit'), current_setting('statement_timeout'),"
            " (SELECT count(*) FROM pg_prepared_statements)"
        )
        with behind.transaction() as own:
            behind.enqueue_tx(own, "mail", 1)
        behind.queue("mail").claim("w")
        seen = {other.execute(query).fetchone() for _ in range(20)}
    assert {row[1:] for row in seen if row} == {('"$user", public', "on", "0", 0)}


def test_many_migrate_once_behind_a_pooler(pooled: str, conninfo: str, new_schema: str) -> None:
    """Field case B98."""
    with ThreadPoolExecutor(8) as several:
        outcomes = list(several.map(alkstore_postgres.migrate, [pooled] * 8, [new_schema] * 8))
    assert sorted(map(bool, outcomes)) == [False] * 7 + [True]
    assert catalogue(conninfo, new_schema)


def test_preparing_that_was_left_on_mixes_nothing_up(conninfo: str, schema: str) -> None:
    """The sessions of the pooler are everybody's, and so is what is prepared in them."""
    alkstore_postgres.migrate(conninfo, schema)
    options: dict[str, Any] = {"min_size": 1, "max_size": 1, "prepare_threshold": 0}
    with (
        pooler(conninfo, "transaction", pool_size=2) as where,
        alkstore_postgres.open(where, schema, **options) as one,
        alkstore_postgres.open(where, schema, **options) as other,
    ):
        for turn in range(6):
            first, second = (one, other) if turn % 2 else (other, one)
            job = first.queue("mail").enqueue(turn)
            first.queue("kept").enqueue_many([turn] * 3)
            assert [handle.payload for handle in second.queue("mail").claim("w")] == [turn]
            assert second.queue("mail").size() == turn + 1
            found = second.get_job(job)
            assert found is not None
            assert found.payload == turn
            assert first.try_lock(f"lock {turn}", ttl=60)
        assert one.queue("kept").size() == other.queue("kept").size() == 18
