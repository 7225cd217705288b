"""The seam's promises, on a transaction of every kind (field case B130)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore
from alkstore_postgres import PostgresStore
from tests.support.carriers import MAKERS, Carrier, UndoError, pid_of
from tests.support.ear import Ear

TEXT = 'it\'s \\ "100%" %s %(x)s {} {schema} ; -- 字 🦉 é'


@pytest.fixture
def ear(store: PostgresStore, conninfo: str, schema: str) -> Iterator[Ear]:
    with Ear(conninfo, schema) as listening:
        yield listening


def insert(carrier: Carrier, orders: sql.Identifier, number: int = 1) -> None:
    carrier.run(f"INSERT INTO {orders.as_string(None)} VALUES ({number})")


def count(connection: psycopg.Connection[Any], orders: sql.Identifier) -> int:
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(orders)).fetchone()
    assert row is not None
    number: int = row[0]
    return number


def last_word(connection: psycopg.Connection[Any], carrier: Carrier) -> Any:
    """What the server last heard from the carrier, and when."""
    query = "SELECT state_change, query FROM pg_stat_activity WHERE pid = %s"
    row = connection.execute(query, [pid_of(carrier)]).fetchone()
    assert row is not None
    return row


def test_a_commit_brings_the_row_the_jobs_and_the_wakes(
    store: PostgresStore,
    carrier: Carrier,
    orders: sql.Identifier,
    connection: psycopg.Connection[Any],
    ear: Ear,
) -> None:
    insert(carrier, orders)
    job_id = store.enqueue_tx(carrier.tx, "mail", {"order": 1})
    message = store.outbox_enqueue_tx(carrier.tx, "events", {"order": 1})
    store.notify_tx(carrier.tx, "channel")
    assert store.get_job(job_id) is None
    assert ear.heard() == []
    carrier.commit()
    job, sent = store.get_job(job_id), store.get_job(message)
    assert job is not None
    assert sent is not None
    assert job.payload == sent.payload == {"order": 1}
    assert (sent.visibility_timeout.total_seconds(), sent.max_attempts) == (60, 5)
    assert count(connection, orders) == 1
    assert ear.heard() == ["mail", "__alkstore_outbox:events", "channel"]


def test_a_rollback_takes_all_of_it_away(
    store: PostgresStore,
    carrier: Carrier,
    orders: sql.Identifier,
    connection: psycopg.Connection[Any],
    ear: Ear,
) -> None:
    insert(carrier, orders)
    ids = [
        store.enqueue_tx(carrier.tx, "mail", 1),
        store.outbox_enqueue_tx(carrier.tx, "events", 1),
    ]
    store.notify_tx(carrier.tx, "channel")
    carrier.rollback()
    assert [store.get_job(one) for one in ids] == [None, None]
    assert count(connection, orders) == 0
    assert ear.heard() == []


def test_the_first_statement_of_a_transaction_may_be_the_stores(
    store: PostgresStore, carrier: Carrier
) -> None:
    job_id = store.enqueue_tx(carrier.tx, "mail", 1)
    carrier.commit()
    assert store.get_job(job_id) is not None


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_only(
    store: PostgresStore, carrier: Carrier
) -> None:
    before = store.enqueue_tx(carrier.tx, "mail", "before")
    with pytest.raises(UndoError), carrier.savepoint():  # noqa: PT012 - a transaction
        within = store.enqueue_tx(carrier.tx, "mail", "within")
        raise UndoError
    with carrier.savepoint():
        kept = store.enqueue_tx(carrier.tx, "mail", "kept")
    carrier.commit()
    alive = [one for one in (before, within, kept) if store.get_job(one)]
    assert alive == [before, kept]


def test_every_option_and_any_text_arrive_as_they_are(
    store: PostgresStore, carrier: Carrier
) -> None:
    """Field case B131: text is data, whatever it looks like."""
    zone = timezone(timedelta(hours=-3, minutes=-30))
    at = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=zone)
    job_id = store.enqueue_tx(
        carrier.tx,
        TEXT,
        {TEXT: TEXT},
        run_at=at,
        priority=-32768,
        expires=timedelta(days=1),
        max_attempts=7,
    )
    delayed = store.enqueue_tx(carrier.tx, TEXT, "\0\x7f", delay=1.5, priority=32767)
    carrier.commit()
    job, late = store.get_job(job_id), store.get_job(delayed)
    assert job is not None
    assert late is not None
    assert (job.queue, job.payload, job.run_at) == (TEXT, {TEXT: TEXT}, at)
    assert (job.priority, job.max_attempts) == (-32768, 7)
    assert job.expires_at is not None
    assert job.expires_at - job.enqueued_at == timedelta(days=1)
    assert (late.payload, late.priority) == ("\0\x7f", 32767)
    assert late.run_at - late.enqueued_at == timedelta(seconds=1.5)


REFUSALS: dict[str, tuple[type[Exception], Callable[[PostgresStore, Any], object]]] = {
    "an empty name": (alkstore.InvalidName, lambda s, tx: s.enqueue_tx(tx, "", 1)),
    "a NUL": (alkstore.InvalidName, lambda s, tx: s.notify_tx(tx, "a\0b")),
    "a reserved queue": (
        alkstore.ReservedName,
        lambda s, tx: s.enqueue_tx(tx, "__alkstore_outbox:events", 1),
    ),
    "a reserved outbox": (
        alkstore.ReservedName,
        lambda s, tx: s.outbox_enqueue_tx(tx, "__alkstore_x", 1),
    ),
    "a reserved channel": (alkstore.ReservedName, lambda s, tx: s.notify_tx(tx, "__alkstore_x")),
    "no JSON": (alkstore.EncodeError, lambda s, tx: s.enqueue_tx(tx, "q", object())),
    "NaN": (alkstore.EncodeError, lambda s, tx: s.outbox_enqueue_tx(tx, "o", math.nan)),
    "too large": (alkstore.PayloadTooLarge, lambda s, tx: s.enqueue_tx(tx, "q", "x" * 2**21)),
    "an unknown option": (
        alkstore.InvalidOption,
        lambda s, tx: s.enqueue_tx(tx, "q", 1, colour=1),  # type: ignore[call-arg]
    ),
    "a bad option": (alkstore.InvalidOption, lambda s, tx: s.enqueue_tx(tx, "q", 1, delay=-1)),
}


def test_a_refusal_comes_before_any_round_trip_and_leaves_the_transaction_usable(
    store: PostgresStore,
    carrier: Carrier,
    orders: sql.Identifier,
    connection: psycopg.Connection[Any],
) -> None:
    insert(carrier, orders)
    before = last_word(connection, carrier)
    for error, call in REFUSALS.values():
        with pytest.raises(error):
            call(store, carrier.tx)
    query = "SELECT state_change, query FROM pg_stat_activity WHERE query = %s"
    assert connection.execute(query, [before[1]]).fetchone() == before
    job_id = store.enqueue_tx(carrier.tx, "mail", 1)
    carrier.commit()
    assert store.get_job(job_id) is not None
    assert count(connection, orders) == 1


def test_nothing_of_the_session_changes(
    store: PostgresStore, carrier: Carrier, connection: psycopg.Connection[Any]
) -> None:
    carrier.run("SELECT 1")
    before = session_state(carrier)
    for number in range(12):
        store.enqueue_tx(carrier.tx, "mail", number)
        store.notify_tx(carrier.tx, "channel")
    assert session_state(carrier) == before
    carrier.commit()
    assert session_state(carrier) == before
    carrier.commit()


def session_state(carrier: Carrier) -> dict[str, Any]:
    return {
        "settings": carrier.run(
            "SELECT name, setting FROM pg_settings"
            " WHERE name NOT IN ('transaction_read_only') ORDER BY name"
        ),
        "prepared": carrier.run("SELECT statement FROM pg_prepared_statements"),
        "cursors": carrier.run("SELECT name FROM pg_cursors WHERE name <> ''"),
        "listening": carrier.run("SELECT pg_listening_channels()"),
        "temporary": carrier.run("SELECT pg_my_temp_schema()::int"),
        "advisory locks": carrier.run(
            "SELECT * FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ),
    }


def test_an_aborted_transaction_is_told_and_nothing_worse(
    store: PostgresStore, carrier: Carrier
) -> None:
    with pytest.raises(Exception, match="division by zero"):
        carrier.run("SELECT 1 / 0")
    with pytest.raises(alkstore.DatabaseError, match="aborted") as caught:
        store.enqueue_tx(carrier.tx, "mail", 1)
    assert (caught.value.sqlstate, caught.value.retryable) == ("25P02", False)
    assert caught.value.__cause__ is not None
    carrier.rollback()
    carrier.run("SELECT 1")
    job_id = store.enqueue_tx(carrier.tx, "mail", 2)
    carrier.commit()
    assert store.get_job(job_id) is not None


@pytest.mark.parametrize("kind", ["psycopg", "psycopg cursor", "psycopg2", "psycopg2 cursor"])
def test_a_closed_connection_is_told(store: PostgresStore, conninfo: str, kind: str) -> None:
    carrier = MAKERS[kind](conninfo)
    carrier.close()
    with pytest.raises(alkstore.DatabaseError, match="closed") as caught:
        store.enqueue_tx(carrier.tx, "mail", 1)
    assert caught.value.retryable


def test_a_killed_session_is_told(
    store: PostgresStore, carrier: Carrier, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid_of(carrier)])
    with pytest.raises(alkstore.DatabaseError) as caught:
        store.enqueue_tx(carrier.tx, "mail", 1)
    assert caught.value.retryable
    assert store.queue("mail").size() == 0


def test_a_schema_that_is_gone_is_told(
    store: PostgresStore, carrier: Carrier, connection: psycopg.Connection[Any], schema: str
) -> None:
    connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    with pytest.raises(alkstore.SchemaOutdated):
        store.enqueue_tx(carrier.tx, "mail", 1)


def test_a_message_never_shows_the_payload(
    store: PostgresStore, carrier: Carrier, connection: psycopg.Connection[Any], schema: str
) -> None:
    connection.execute(
        sql.SQL("ALTER TABLE {} ADD CHECK (queue <> 'mail')").format(sql.Identifier(schema, "jobs"))
    )
    with pytest.raises(alkstore.DatabaseError) as caught:
        store.enqueue_tx(carrier.tx, "mail", "hush-hush")
    assert caught.value.sqlstate == "23514"
    assert "hush" not in str(caught.value)
    assert b"hush".hex() not in str(caught.value)


def test_a_closed_store_refuses(store: PostgresStore, carrier: Carrier) -> None:
    store.close()
    for call in (
        lambda: store.enqueue_tx(carrier.tx, "mail", 1),
        lambda: store.outbox_enqueue_tx(carrier.tx, "mail", 1),
        lambda: store.notify_tx(carrier.tx, "mail"),
    ):
        with pytest.raises(alkstore.StoreClosed):
            call()
