"""The seam on connections of psycopg2: what the application has set plays no part."""

from __future__ import annotations

import io
from typing import Any

import psycopg2  # type: ignore[import-untyped]
import psycopg2.extensions  # type: ignore[import-untyped]
import psycopg2.extras  # type: ignore[import-untyped]
import pytest

import alkstore
from alkstore_postgres import PostgresStore

FACTORIES = {
    "DictConnection": {"connection_factory": psycopg2.extras.DictConnection},
    "NamedTupleCursor": {"cursor_factory": psycopg2.extras.NamedTupleCursor},
    "RealDictCursor": {"cursor_factory": psycopg2.extras.RealDictCursor},
    "LoggingConnection": {"connection_factory": psycopg2.extras.LoggingConnection},
}


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_applications_factories_have_no_influence_and_stay(
    store: PostgresStore, conninfo: str, factory: str
) -> None:
    connection = psycopg2.connect(conninfo, **FACTORIES[factory])
    if isinstance(connection, psycopg2.extras.LoggingConnection):
        connection.initialize(io.StringIO())
    before = connection.cursor_factory
    ids = [store.enqueue_tx(tx, "mail", 1) for tx in (connection, connection.cursor())]
    assert connection.cursor_factory is before
    connection.commit()
    connection.close()
    assert all(store.get_job(one) for one in ids)


SESSIONS = {
    "client_encoding": "SQL_ASCII",
    "standard_conforming_strings": "off",
    "DateStyle": "German, DMY",
    "TimeZone": "Pacific/Auckland",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "backslash_quote": "off",
    "search_path": "",
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_setting_of_the_session_changes_no_value(
    store: PostgresStore, conninfo: str, name: str
) -> None:
    connection = psycopg2.connect(conninfo)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, false)", [name, SESSIONS[name]])
    text = "\\' \\x41 字 🦉 % %% %s"
    job_id = store.enqueue_tx(connection, text, text, delay=0.25)
    connection.commit()
    connection.close()
    job = store.get_job(job_id)
    assert job is not None
    assert (job.queue, job.payload) == (text, text)
    assert (job.run_at - job.enqueued_at).total_seconds() == 0.25


def test_a_client_encoding_set_by_the_driver_changes_no_value(
    store: PostgresStore, conninfo: str
) -> None:
    connection = psycopg2.connect(conninfo)
    connection.set_client_encoding("SJIS")
    job_id = store.enqueue_tx(connection, "é\\表", "é\\表")
    connection.commit()
    connection.close()
    job = store.get_job(job_id)
    assert job is not None
    assert (job.queue, job.payload) == ("é\\表", "é\\表")


def test_type_casters_and_adapters_have_no_influence(
    store: PostgresStore, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise AssertionError

    extensions = psycopg2.extensions
    for kind in (str, int, float, bytes, bool):
        monkeypatch.setitem(extensions.adapters, (kind, extensions.ISQLQuote), broken)
    connection = psycopg2.connect(conninfo)
    caster = extensions.new_type((20, 25, 2278), "BROKEN", broken)
    extensions.register_type(caster, connection)
    job_id = store.enqueue_tx(connection, "mail", {"a": 1.5}, expires=9)
    store.notify_tx(connection, "mail")
    assert connection.string_types[20] is caster
    connection.commit()
    connection.close()
    assert isinstance(job_id, int)
    assert store.get_job(job_id) is not None


def test_autocommit_is_refused_outside_a_transaction_and_fine_inside(
    store: PostgresStore, conninfo: str
) -> None:
    connection = psycopg2.connect(conninfo)
    connection.autocommit = True
    for tx in (connection, connection.cursor()):
        with pytest.raises(alkstore.NoTransaction, match="autocommit"):
            store.enqueue_tx(tx, "mail", 1)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        store.enqueue_tx(cursor, "mail", 1)
        cursor.execute("COMMIT")
    connection.close()
    assert store.queue("mail").size() == 1


def test_an_asynchronous_connection_is_refused_by_name(store: PostgresStore, conninfo: str) -> None:
    connection = psycopg2.connect(conninfo, async_=1)
    psycopg2.extras.wait_select(connection)
    with pytest.raises(TypeError, match="asynchronous"):
        store.enqueue_tx(connection, "mail", 1)
    connection.close()


def test_the_callers_cursor_keeps_its_result(store: PostgresStore, conninfo: str) -> None:
    connection = psycopg2.connect(conninfo)
    with connection.cursor() as cursor:
        cursor.execute("SELECT generate_series(1, 3)")
        assert cursor.fetchone() == (1,)
        store.enqueue_tx(cursor, "mail", 1)
        assert cursor.fetchall() == [(2,), (3,)]
    connection.close()
    assert store.queue("mail").size() == 0
