"""What the calls of a queue send: statements and round trips, counted on the wire.

Floors against regressions: a round trip costs more than what it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import alkstore_postgres
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable
from tests.support.sql_probe import SqlProbe, Traffic


@pytest.fixture(params=[0, None], ids=["prepared", "behind a pooler"])
def watched(
    request: pytest.FixtureRequest,
    sql_probe: SqlProbe,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[PostgresStore]:
    """A store whose only connection has run everything once."""
    # Claims after a slow look are other statements: not for a moment of a busy machine.
    monkeypatch.setattr("alkstore_postgres.queue.claim_places.SLOW_LOOK", 600.0)
    with alkstore_postgres.open(
        sql_probe.conninfo, schema, min_size=1, max_size=1, prepare_threshold=request.param
    ) as store:
        queue = store.queue("warm")
        queue.enqueue(0)
        queue.enqueue_many([1, 2])
        for _ in range(2):  # the second one is of a streak
            queue.claim("w")[0].ack()
        queue.enqueue_many(range(300))
        for _ in range(2):
            queue.ack_many(queue.claim("w", 100))
        yield store


def counts(traffic: Traffic) -> tuple[int, int]:
    return len(traffic.statements), traffic.round_trips


def test_an_enqueue_is_one_statement_and_one_round_trip(
    watched: PostgresStore, sql_probe: SqlProbe
) -> None:
    queue = watched.queue("mail")
    with sql_probe.watching() as traffic:
        queue.enqueue("hello")
    assert counts(traffic) == (1, 1), traffic


def test_a_claim_and_its_ack_are_one_round_trip_each_in_a_streak_as_well(
    watched: PostgresStore, sql_probe: SqlProbe
) -> None:
    queue = watched.queue("warm")
    assert queue.size() >= 50
    for _ in range(3):
        with sql_probe.watching() as claiming:
            (handle,) = queue.claim("w")
        assert counts(claiming) == (1, 1), claiming
        with sql_probe.watching() as acking:
            assert handle.ack()
        assert counts(acking) == (1, 1), acking


def test_the_last_claim_of_a_streak_is_two_statements_and_an_idle_one_is_one(
    watched: PostgresStore, sql_probe: SqlProbe
) -> None:
    warm, queue = watched.queue("other"), watched.queue("mail")
    for one in (warm, queue):
        one.enqueue_many(range(45))
    assert [len(warm.claim("w", 20)) for _ in range(2)] == [20, 20]
    seen = []
    for _ in range(4):
        with sql_probe.watching() as traffic:
            jobs = queue.claim("w", 20)
        seen.append((len(jobs), *counts(traffic)))
    assert seen == [(20, 1, 1), (20, 1, 1), (5, 2, 2), (0, 1, 1)]


def test_a_streak_changes_nothing_about_what_is_claimed(queue: Queue, table: JobTable) -> None:
    low = queue.enqueue_many(range(10))
    assert [handle.id for _ in range(3) for handle in queue.claim("w", 2)] == low[:6]
    table.lapse(low[0])
    high = queue.enqueue(1, priority=5)
    late = queue.enqueue(2, priority=9, delay=60)
    assert [handle.id for handle in queue.claim("w", 2)] == [high, low[0]]
    assert [handle.id for handle in queue.claim("w", 9)] == low[6:]
    assert queue.cancel(late)


def test_a_hundred_jobs_are_claimed_and_acked_in_two_round_trips(
    watched: PostgresStore, sql_probe: SqlProbe
) -> None:
    queue = watched.queue("warm")
    with sql_probe.watching() as traffic:
        assert queue.ack_many(queue.claim("w", 100)) == 100
    assert counts(traffic) == (2, 2), traffic


@pytest.mark.parametrize(("jobs", "most"), [(1, 1), (5_000, 1), (20_000, 6)])
def test_many_jobs_are_stored_in_few_round_trips(
    watched: PostgresStore, sql_probe: SqlProbe, jobs: int, most: int
) -> None:
    with sql_probe.watching() as traffic:
        watched.queue("mail").enqueue_many(range(jobs))
        stored = [text for text in traffic.statements if "pg_notify" not in text]
    assert len(stored) <= most, traffic


def test_prepared_statements_that_somebody_discards_cost_no_error(
    conninfo: str, schema: str
) -> None:
    with alkstore_postgres.open(
        conninfo, schema, min_size=1, max_size=1, prepare_threshold=0
    ) as store:
        queue = store.queue("mail")
        jobs = [queue.enqueue(1)]
        with store.transaction() as own:
            own.execute("DEALLOCATE ALL")
        jobs.append(queue.enqueue(2))
        assert [handle.id for handle in queue.claim("w", 5)] == jobs


def test_nothing_is_prepared_where_a_pooler_forbids_it(conninfo: str, schema: str) -> None:
    with alkstore_postgres.open(
        conninfo, schema, min_size=1, max_size=1, prepare_threshold=None
    ) as store:
        queue = store.queue("mail")
        for number in range(8):
            queue.enqueue(number)
            queue.claim("w")[0].ack()
        with store.transaction() as own:
            assert prepared(own) == 0


def test_what_runs_often_is_prepared_once(conninfo: str, schema: str) -> None:
    with alkstore_postgres.open(conninfo, schema, min_size=1, max_size=1) as store:
        queue = store.queue("mail")
        for number in range(50):
            queue.enqueue(number)
        with store.transaction() as own:
            # The insert, with a wake and asking for one, and the sender's look.
            assert 1 <= prepared(own) <= 4


def prepared(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    row = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert row is not None
    return int(str(row[0]))
