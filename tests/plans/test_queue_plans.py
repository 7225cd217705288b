"""Field case B112: what a queue's statements cost does not grow with what is in the way.

Two hundred thousand rows by default; ``ALKSTORE_PLAN_ROWS=1000000`` takes a few minutes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from alkstore_postgres import PostgresStore
from tests.support.backlogs import BACKLOGS, FEW, ROWS, Backlog, never_analysed
from tests.support.plans import MODES, Explainer, Plan
from tests.support.queue_statements import QueueStatements
from tests.support.waiting import wait_until
from tests.support.workers import release_many

pytestmark = pytest.mark.timeout(900)

Plans = dict[str, list[Plan]]


@pytest.fixture(scope="module", params=BACKLOGS, ids=lambda fill: fill.__name__)
def plans(request: pytest.FixtureRequest, conninfo: str) -> Iterator[Plans]:
    """Return the plans of every statement over one backlog."""
    schema = f"t {secrets.token_hex(6)}"
    fill: Callable[[Backlog], None] = request.param
    with (
        psycopg.connect(conninfo, autocommit=True) as connection,
        psycopg.connect(conninfo, autocommit=True) as explaining,
    ):
        with alkstore_postgres.open(conninfo, schema) as store:
            backlog = Backlog(connection, schema)
            fill(backlog)
            yield QueueStatements(store, backlog, Explainer(explaining)).run()
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


COUNTS_ALL = {"size"}
"""It counts every job, exactly: the more there are, the more it reads."""

PAGES = {
    "claim 1": 120,
    "claim of an empty queue": 60,
    "claim 33": 33 * 30,
    "claim 100": 100 * 30,
    "claim_first 1": 100,
    "claim_some_below 1": 100,
    "claim_more_below 100": 100 * 30,
    "sweep and claim 1": 300,
    # Rows that are counted are rows that are read; there may be one on each page.
    "stats": 60_000,
    # The rows are read, and there may be one on each page.
    "peek": 250,
    "peek 33": 250,
    "dead": 250,
    "dead, next page": 250,
    "get_job": 20,
    "cancel": 20,
    "heartbeat": 40,
    "ack": 20,
    "retry": 60,
    "release": 60,
    "fail": 60,
    "heartbeat_many": 50 * 40,
    "ack_many": 50 * 20,
    "release_many": 50 * 60,
    "requeue": 20 * 40,
    "purge by ids": 20 * 30,
    "purge by age": 400 * 20,
    "enqueue": 60,
    "enqueue that asks": 65,
    "wake": 65 * 6,
}
"""How many pages each may touch, whatever the backlog."""


A_FEW = 2_000
"""A table of so many rows may be read as a whole; the backlogs are much larger."""


def test_nothing_reads_a_large_table_from_end_to_end(plans: Plans) -> None:
    guilty = {
        (name, plan.mode): plan.query
        for name, runs in plans.items()
        for plan in runs
        if name not in COUNTS_ALL and plan.rows_scanned_in_sequence() > A_FEW
    }
    assert not guilty


def test_nothing_sorts_more_than_it_returns(plans: Plans) -> None:
    guilty = {
        (name, plan.mode): plan.rows_sorted()
        for name, runs in plans.items()
        for plan in runs
        if plan.rows_sorted() > A_FEW
    }
    assert not guilty


def test_the_pages_that_are_touched_are_few(plans: Plans) -> None:
    guilty = {
        (name, plan.mode): plan.buffers
        for name, runs in plans.items()
        for plan in runs
        if name not in COUNTS_ALL and plan.buffers > PAGES[name]
    }
    assert not guilty


def test_a_claim_goes_through_the_index_of_ready_jobs(plans: Plans) -> None:
    of_one = ("claim 1", "claim_first 1", "claim_some_below 1")
    for name in (*of_one, "claim 33", "claim 100", "claim_more_below 100"):
        for plan in plans[name]:
            assert "jobs_ready" in plan.indexes()


def test_a_look_finds_what_a_sweep_gave_back_by_its_own_index(
    conninfo: str, schema: str, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    with (
        alkstore_postgres.open(conninfo, schema) as store,
        psycopg.connect(conninfo, autocommit=True) as explaining,
    ):
        backlog = Backlog(connection, schema)
        backlog.jobs("mail", 10 * FEW, priority=1, held=True)
        backlog.give_back("mail")
        backlog.jobs("mail", 10 * FEW, held=True)
        backlog.jobs("mail", 20)
        backlog.analyze()
        explainer = Explainer(explaining)
        with explainer.watching() as plans:
            looked = store.queue("mail").peek()
        assert [job.state for job in looked] == ["pending"] * 20 + ["processing"] * 80
        assert len(plans) == len(MODES)
        for plan in plans:
            assert plan.indexes() == {"jobs_ready", "jobs_returned", "jobs_claimed"}
            assert not plan.is_sequential()
            # No more of what is held is read, or sorted, than is asked for.
            assert plan.rows_sorted() < 2 * FEW


def test_a_plan_from_the_time_when_the_table_was_empty_reads_no_full_one(
    conninfo: str, schema: str, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    """A worker that idles on an empty queue has everything prepared when a million come."""

    def live(store: PostgresStore) -> None:
        queue = store.queue("mail")
        for _ in range(15):
            queue.enqueue_many(range(5))
            acked, released, failed = (queue.claim("w")[0] for _ in range(3))
            assert acked.heartbeat()
            assert acked.ack()
            assert released.release()
            assert failed.fail("x")
            assert queue.cancel(queue.enqueue(1))
            assert release_many(queue, queue.claim("w", 2)) == 2
            rest = queue.claim("w", 2)
            assert queue.heartbeat_many(rest) == queue.ack_many(rest) == 2
            assert store.get_job(2**40) is None
            assert queue.requeue([queue.dead(1)[0].id]) == 1

    with alkstore_postgres.open(conninfo, schema, max_size=1) as store:
        backlog = Backlog(connection, schema)
        backlog.analyze()
        live(store)
        backlog.analyze()
        live(store)
        before = backlog.rows_read_in_sequence()
        never_analysed(backlog)
        live(store)
    wait_until(lambda: backlog.rows_read_in_sequence() >= before)
    assert backlog.rows_read_in_sequence() - before < ROWS
