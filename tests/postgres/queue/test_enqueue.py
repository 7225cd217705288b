"""Section 5 of the contract: what an enqueue leaves on the row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from alkstore import EncodeError, PayloadTooLarge
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from tests.support.cursors import Run, around_statements
from tests.support.job_table import JobTable


def test_a_plain_job_is_pending_at_once_with_the_defaults(queue: Queue, table: JobTable) -> None:
    row = table.row(queue.enqueue({"to": "ann"}))
    assert row["queue"] == "mail"
    assert row["payload"] == b'{"to":"ann"}'
    assert row["priority"] == 0
    assert row["run_at"] == row["enqueued_at"]
    assert row["expires_at"] is None
    assert (row["attempts"], row["max_attempts"]) == (0, 3)
    assert (row["visibility_timeout"], row["base_backoff"]) == (300.0, 60.0)
    assert row["claimable"]
    assert row["claim_id"] is row["worker_id"] is row["claim_expires_at"] is None
    assert row["schedule"] is row["scheduled_for"] is None


def test_the_store_clock_dates_a_job(queue: Queue, table: JobTable) -> None:
    job_id = queue.enqueue(1)
    assert -10 < table.seconds_until(job_id, "enqueued_at") <= 0


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_counts_from_now(queue: Queue, table: JobTable, delay: Any) -> None:
    row = table.row(queue.enqueue(1, delay=delay))
    assert row["run_at"] - row["enqueued_at"] == timedelta(seconds=90)


@pytest.mark.parametrize(
    "run_at",
    [
        datetime(1, 1, 1, tzinfo=timezone.utc),
        datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
    ],
)
def test_a_given_time_is_kept_to_the_microsecond(
    store: PostgresStore, queue: Queue, run_at: datetime
) -> None:
    """Field case B59: no time that Python knows overflows the column."""
    job = store.get_job(queue.enqueue(1, run_at=run_at))
    assert job is not None
    assert job.run_at == run_at
    assert job.run_at.utcoffset() == timedelta(0)


def test_the_session_time_zone_moves_nothing(
    queue: Queue,
    table: JobTable,
    conninfo: str,
    schema: str,
) -> None:
    """Field case B135: durations are seconds, across a change of the clocks too."""
    import alkstore_postgres

    where = psycopg.conninfo.make_conninfo(conninfo, options="-c TimeZone=Europe/Berlin")
    year = 366 * 86_400
    with alkstore_postgres.open(where, schema) as abroad:
        row = table.row(abroad.queue("mail").enqueue(1, delay=timedelta(days=180), expires=year))
    assert (row["run_at"] - row["enqueued_at"]).total_seconds() == 180 * 86_400
    assert (row["expires_at"] - row["enqueued_at"]).total_seconds() == year


@pytest.mark.parametrize("priority", [-32_768, -1, 0, 32_767])
def test_the_whole_range_of_priorities_is_stored(
    queue: Queue, table: JobTable, priority: int
) -> None:
    assert table.row(queue.enqueue(1, priority=priority))["priority"] == priority


def test_an_expiry_counts_from_now(queue: Queue, table: JobTable) -> None:
    row = table.row(queue.enqueue(1, delay=10, expires=timedelta(minutes=2)))
    assert row["expires_at"] - row["enqueued_at"] == timedelta(minutes=2)


def test_the_longest_durations_are_stored(store: PostgresStore, table: JobTable) -> None:
    longest = timedelta(days=36_500)
    queue = store.queue("mail", visibility_timeout=longest, base_backoff=longest)
    row = table.row(queue.enqueue(1, delay=longest, max_attempts=2**31 - 1))
    assert row["run_at"] - row["enqueued_at"] == longest
    shorter = table.row(queue.enqueue(1, expires=longest))
    assert shorter["expires_at"] - shorter["enqueued_at"] == longest
    assert row["visibility_timeout"] == row["base_backoff"] == longest.total_seconds()
    assert row["max_attempts"] == 2**31 - 1


def test_the_handles_options_are_stamped_on_the_row(store: PostgresStore, table: JobTable) -> None:
    queue = store.queue("mail", visibility_timeout=1.5, max_attempts=7, base_backoff=0.25)
    row = table.row(queue.enqueue(1))
    assert (row["visibility_timeout"], row["max_attempts"], row["base_backoff"]) == (1.5, 7, 0.25)
    assert table.row(queue.enqueue(1, max_attempts=2))["max_attempts"] == 2


def test_an_option_that_is_none_counts_as_not_given(store: PostgresStore, table: JobTable) -> None:
    options: dict[str, Any] = dict.fromkeys(
        ("delay", "run_at", "priority", "expires", "max_attempts")
    )
    row = table.row(store.queue("mail", max_attempts=4).enqueue(None, **options))
    assert (row["priority"], row["max_attempts"], row["expires_at"]) == (0, 4, None)


def test_ids_are_never_used_again(queue: Queue) -> None:
    first = queue.enqueue(1)
    assert queue.cancel(first)
    assert queue.enqueue(1) > first


# Many at once.


def test_many_jobs_get_their_ids_in_order(queue: Queue, table: JobTable) -> None:
    ids = queue.enqueue_many(range(12_345))
    assert len(ids) == 12_345
    assert ids == sorted(set(ids))
    for position in (0, 4_999, 5_000, 12_344):
        assert table.row(ids[position])["payload"] == str(position).encode()


def test_a_hundred_thousand_jobs_go_in_with_one_call(queue: Queue, table: JobTable) -> None:
    ids = queue.enqueue_many({"n": n} for n in range(100_000))
    assert len(ids) == len(set(ids)) == queue.size() == 100_000
    assert ids == sorted(ids)
    assert table.row(ids[-1])["payload"] == b'{"n":99999}'
    assert [handle.id for handle in queue.claim("w", 100)] == ids[:100]


def test_many_jobs_share_the_options(store: PostgresStore, table: JobTable) -> None:
    queue = store.queue("mail", visibility_timeout=5, base_backoff=2)
    for job_id in queue.enqueue_many(["a", "b"], delay=60, priority=4, expires=600, max_attempts=9):
        row = table.row(job_id)
        assert row["run_at"] - row["enqueued_at"] == timedelta(seconds=60)
        assert row["expires_at"] - row["enqueued_at"] == timedelta(seconds=600)
        assert (row["priority"], row["max_attempts"]) == (4, 9)
        assert (row["visibility_timeout"], row["base_backoff"]) == (5, 2)


def test_no_payloads_are_no_jobs(queue: Queue) -> None:
    assert queue.enqueue_many([]) == []
    assert queue.enqueue_many(iter(())) == []
    assert queue.size() == 0


def test_one_payload_without_an_encoding_leaves_nothing(queue: Queue) -> None:
    with pytest.raises(EncodeError):
        queue.enqueue_many([*range(20_000), float("nan")])
    assert queue.size() == 0


def test_one_payload_too_large_leaves_nothing(open_store: Any) -> None:
    queue = open_store(max_payload_bytes=10).queue("mail")
    with pytest.raises(PayloadTooLarge):
        queue.enqueue_many(["12345678", "123456789"])
    assert queue.size() == 0
    assert len(queue.enqueue_many(["12345678"])) == 1


def test_an_error_among_the_payloads_leaves_nothing(queue: Queue) -> None:
    def broken() -> Iterator[int]:
        yield from range(7_000)
        raise KeyError

    with pytest.raises(KeyError):
        queue.enqueue_many(broken())
    assert queue.size() == 0


def test_an_error_of_the_server_half_way_leaves_nothing(
    queue: Queue, connection: psycopg.Connection[Any], schema: str
) -> None:
    check = "ALTER TABLE {} ADD CONSTRAINT seven CHECK (payload <> '7000')"
    connection.execute(psycopg.sql.SQL(check).format(psycopg.sql.Identifier(schema, "jobs")))
    from alkstore import DatabaseError

    with pytest.raises(DatabaseError) as caught:
        queue.enqueue_many(range(7_001))
    assert caught.value.sqlstate == "23514"
    assert "7000" not in str(caught.value)
    assert queue.size() == 0


@pytest.mark.parametrize("asks", [False, True])
def test_a_job_is_stored_when_no_wake_can_be_sent(
    store: PostgresStore,
    queue: Queue,
    table: JobTable,
    monkeypatch: pytest.MonkeyPatch,
    asks: bool,
) -> None:
    """Field case B77: a full notification queue is told at the commit, and nothing was stored."""
    tried: list[bytes] = []
    if asks:
        monkeypatch.setattr(store._parts.sender, "begin", lambda _name, due: 7 if due else None)

    def full(run: Run) -> Run:
        def run_unless_waking(cursor: object, query: bytes, *args: Any, **options: Any) -> None:
            tried.append(query)
            if b"pg_notify" in query:
                raise psycopg.errors.ProgramLimitExceeded
            run(cursor, query, *args, **options)

        return run_unless_waking

    around_statements(monkeypatch, full)
    job_id = queue.enqueue("x", priority=7)
    assert [b"pg_notify" in query for query in tried[:2]] == [True, False]
    assert table.row(job_id)["priority"] == 7
    assert queue.size() == 1
