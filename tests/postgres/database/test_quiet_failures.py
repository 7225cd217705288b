"""No failure shows a payload, in its message or in a traceback in the log, and none keeps one."""

from __future__ import annotations

import gc
import logging
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore
from alkstore_postgres import PostgresStore
from tests.support.carriers import MAKERS
from tests.support.waiting import wait_until

SECRET = "hush-hush"
SHOWN = (SECRET, SECRET.encode().hex())

# Each of them makes the server quote the whole row, or the values of a statement.
FAULTS = {
    "CHECK": "ALTER TABLE {jobs} ADD CHECK (queue <> 'mail') NOT VALID",
    "NOT NULL": """
        CREATE FUNCTION {spoil}() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.priority := NULL; RETURN NEW; END $$;
        CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON {jobs} FOR EACH ROW
            WHEN (NEW.queue = 'mail') EXECUTE FUNCTION {spoil}()
    """,
    "UNIQUE": "CREATE UNIQUE INDEX ON {jobs} (payload)",
}

Break = Callable[[str], None]


@pytest.fixture
def break_(connection: psycopg.Connection[Any], schema: str) -> Break:
    """Make the jobs table of this test refuse rows."""

    def make(fault: str) -> None:
        names = {"jobs": sql.Identifier(schema, "jobs"), "spoil": sql.Identifier(schema, "spoil")}
        connection.execute(sql.SQL(FAULTS[fault]).format(**names))

    return make


def whole(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def shown_in(text: str) -> list[str]:
    return [one for one in SHOWN if one in text]


@pytest.mark.parametrize("fault", FAULTS)
def test_no_traceback_shows_the_row_that_was_refused(
    store: PostgresStore, break_: Break, fault: str
) -> None:
    queue = store.queue("mail")
    queue.enqueue(SECRET)
    break_(fault)
    calls: list[Callable[[], object]] = [
        lambda: queue.enqueue(SECRET),
        lambda: queue.enqueue_many([SECRET, SECRET]),
    ]
    if fault != "UNIQUE":
        calls += [lambda: queue.claim("w"), lambda: store.run_now("s")]
        store.schedule("s", "@every 1h", "mail", SECRET)
    for call in calls:
        with pytest.raises(alkstore.DatabaseError, match="violates") as caught:
            call()
        assert shown_in(whole(caught.value)) == []
        cause = caught.value.__cause__
        assert isinstance(cause, psycopg.Error)
        assert str(cause) == str(caught.value)
        assert cause.diag.message_detail  # still there, for those who look


@pytest.mark.parametrize("kind", MAKERS)
def test_the_seam_is_as_quiet_on_every_connection(
    store: PostgresStore, conninfo: str, break_: Break, kind: str
) -> None:
    carrier = MAKERS[kind](conninfo)
    break_("CHECK")
    try:
        with pytest.raises(alkstore.DatabaseError, match="violates") as caught:
            store.enqueue_tx(carrier.tx, "mail", SECRET)
        assert shown_in(whole(caught.value)) == []
    finally:
        carrier.rollback()
        carrier.close()


def test_the_applications_own_errors_keep_their_details(
    store: PostgresStore, break_: Break, schema: str
) -> None:
    store.queue("other").enqueue(SECRET)
    break_("CHECK")
    update = sql.SQL("UPDATE {} SET queue = 'mail'").format(sql.Identifier(schema, "jobs"))
    with (
        pytest.raises(psycopg.errors.CheckViolation, match="Failing row"),
        store.transaction() as own,
    ):
        own.execute(update)


@pytest.mark.parametrize("fault", ["CHECK", "NOT NULL"])
def test_the_log_of_a_runner_is_as_quiet(
    store: PostgresStore, break_: Break, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store.queue("mail").enqueue(SECRET)
    store.queue("other").enqueue(SECRET)
    break_(fault)
    worker = store.start_worker("mail", lambda _: None)  # its claim is refused
    passing_on = store.start_worker("other", lambda job: store.queue("mail").enqueue(job.payload))
    relay = store.start_outbox("events", lambda _: None)
    store.schedule("s", "@every 1h", "mail", SECRET)
    wait_until(lambda: worker.last_error is not None)
    wait_until(lambda: "job 2 of queue 'other' failed" in caplog.text)
    store.close()
    assert "violates" in caplog.text
    assert shown_in(caplog.text) == []
    assert passing_on.last_error is relay.last_error is None


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_failure_keeps_nothing_once_it_was_handled(
    store: PostgresStore, in_transaction: bool
) -> None:
    """What its traceback holds, a payload for one, does not wait for the garbage collector."""
    database = store._parts.database
    wrong = b"SELECT 1 / 0"
    gone: weakref.ref[BaseException] | None = None
    gc.collect()
    gc.disable()
    try:
        try:
            if in_transaction:
                database.run(lambda session: session.fetch_value(wrong))
            else:
                database.fetch_value(wrong)
        except alkstore.DatabaseError as error:
            gone = weakref.ref(error)
        assert gone is not None
        assert gone() is None
    finally:
        gc.enable()
