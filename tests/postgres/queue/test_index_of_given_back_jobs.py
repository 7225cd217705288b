"""The index of what a sweep gave back: neither an enqueue nor a claim pays for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from alkstore.traits import Queue
from tests.support.job_table import JobTable

_PAGE_OF_AN_EMPTY_INDEX = 1
"""It says where the root is, and there is none before the first entry."""


@pytest.fixture
def schema(new_schema: str) -> str:
    """Return one in which nothing has been: what is over has left pages."""
    return new_schema


@pytest.fixture
def pages(connection: psycopg.Connection[Any], schema: str) -> Callable[[], int]:
    """Return what counts the pages of the index."""

    def count() -> int:
        # Pages are never given back, so entries of what is over count as well.
        query = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::integer"
        index = sql.Identifier(schema, "jobs_returned").as_string(connection)
        row = connection.execute(query, [index]).fetchone()
        assert row is not None
        return int(row[0])

    return count


def test_a_jobs_life_adds_nothing_to_it(queue: Queue, pages: Callable[[], int]) -> None:
    queue.enqueue_many(range(20), expires=60)
    queue.enqueue(1, delay=60)
    acked, failed, released, retried, *others = queue.claim("w", 10)
    assert acked.heartbeat()
    assert acked.ack()
    assert failed.fail("x")
    assert released.release()
    assert retried.retry("x", 0)
    assert queue.requeue([failed.id]) == 1
    assert queue.heartbeat_many(others) == len(others)
    assert queue.ack_many(others[:2]) == 2
    assert queue.claim("w", 20)
    assert pages() == _PAGE_OF_AN_EMPTY_INDEX


def test_a_lapsed_claim_that_a_sweep_gives_back_is_in_it(
    queue: Queue, table: JobTable, pages: Callable[[], int]
) -> None:
    queue.enqueue(1)
    (held,) = queue.claim("w")
    table.lapse(held.id)
    assert pages() == _PAGE_OF_AN_EMPTY_INDEX
    urgent = queue.enqueue(2, priority=1)
    assert [handle.id for handle in queue.claim("w")] == [urgent]
    assert pages() > _PAGE_OF_AN_EMPTY_INDEX
