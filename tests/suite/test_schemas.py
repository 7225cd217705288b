"""The schemas that one test after another uses are as new for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

import alkstore_postgres
from tests.support import schemas
from tests.support.catalogue import catalogue
from tests.support.schemas import Schemas


@pytest.fixture
def own(conninfo: str) -> Iterator[Schemas]:
    with closing(Schemas(conninfo)) as schemas:
        yield schemas


def test_rows_are_gone_and_jobs_are_numbered_from_the_beginning(
    own: Schemas, conninfo: str
) -> None:
    name = own.take()
    seen = []
    for _ in range(2):
        with alkstore_postgres.open(conninfo, name, migrate=False) as store:
            queue = store.queue("mail")
            assert not queue.stats().ready
            seen.append([queue.enqueue(1), queue.enqueue(2)])
            (first,) = queue.claim("w")
            first.fail("broken")
            assert store.lock("one", 60) is not None
            store.schedule("report", "@every 1h", "mail", 1)
        own.give_back(name)
        assert own.take() == name
    with alkstore_postgres.open(conninfo, name, migrate=False) as store:
        assert not store.queue("mail").dead()
        assert not store.schedules()
        lock = store.lock("one", 60)
        assert lock is not None
        assert lock.token == 1
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "change",
    [
        "DROP SCHEMA {s} CASCADE",
        "DROP TABLE {s}.jobs",
        "DROP INDEX {s}.jobs_ready",
        "CREATE INDEX ON {s}.jobs (id)",
        "CREATE TABLE {s}.more ()",
        "CREATE FUNCTION {s}.one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE {s}.jobs ADD COLUMN more int",
        "ALTER TABLE {s}.jobs ALTER COLUMN queue SET STATISTICS 10",
        "ALTER TABLE {s}.jobs SET (fillfactor = 50)",
        "ALTER TABLE {s}.locks ADD CHECK (token < 5)",
        "ALTER TABLE {s}.locks ENABLE ROW LEVEL SECURITY",
        "CREATE RULE more AS ON INSERT TO {s}.locks DO NOTHING",
        "CREATE POLICY more ON {s}.locks",
        "CREATE TRIGGER more BEFORE UPDATE ON {s}.locks EXECUTE FUNCTION unique_key_recheck()",
        "ALTER SEQUENCE {s}.jobs_id_seq INCREMENT 5",
        "ALTER DOMAIN {s}.job_timeout DROP CONSTRAINT job_timeout_in_range",
        "GRANT SELECT ON {s}.jobs TO PUBLIC",
        "GRANT USAGE ON SCHEMA {s} TO PUBLIC",
        "UPDATE {s}.migrations SET version = 7",
        "VACUUM {s}.jobs",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {s} GRANT SELECT ON TABLES TO PUBLIC",
        "CREATE STATISTICS {s}.more ON queue, priority FROM {s}.jobs",
        "CREATE COLLATION {s}.more (LOCALE = 'C')",
        "COMMENT ON TABLE {s}.jobs IS 'more'",
        "INSERT INTO {s}.locks VALUES (1, now(), now(), 'a', 'b'); ANALYZE {s}.locks",
    ],
)
def test_what_somebody_has_changed_is_not_used_again(own: Schemas, change: str) -> None:
    name = own.take()
    expected = catalogue(own.conninfo, name)
    own.give_back(name)
    assert own.take() == name
    for part in change.split("; "):
        own.connected().execute(sql.SQL(part).format(s=sql.Identifier(name)))
    own.give_back(name)
    other = own.take()
    assert other != name
    assert catalogue(own.conninfo, other) == expected


def test_one_schema_is_enough_for_any_number_of_tests(own: Schemas) -> None:
    names = set()
    for _ in range(30):
        names.add(own.take())
        own.give_back(*names)
    assert len(names) == 1


def a_row_in(schema: str) -> sql.Composed:
    """Return a statement that leaves something behind in *schema*."""
    store = "INSERT INTO {} VALUES (1, now(), now(), 'a', 'b')"
    return sql.SQL(store).format(sql.Identifier(schema, "locks"))


def test_where_somebody_is_busy_nobody_else_is_let_in(own: Schemas, conninfo: str) -> None:
    name = own.take()
    own.give_back(name)
    with psycopg.connect(conninfo) as busy:
        busy.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(name, "jobs")))
        other = own.take()
        assert other != name
        own.give_back(other)
        assert own.take() == other


def test_where_a_prepared_transaction_is_left_nobody_else_is_let_in(
    own: Schemas, conninfo: str
) -> None:
    name = own.take()
    own.give_back(name)
    with psycopg.connect(conninfo, autocommit=True) as left:
        left.execute("BEGIN")
        left.execute(a_row_in(name))
        left.execute(sql.SQL("PREPARE TRANSACTION {}").format(name))
        other = own.take()
        left.execute(sql.SQL("ROLLBACK PREPARED {}").format(name))
    assert other != name


def test_a_lock_that_is_not_given_back_costs_nobody_else_his_test(
    own: Schemas, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_BUSY", "SELECT false")
    name = own.take()
    own.give_back(name)
    own.connected().execute("SET lock_timeout = '50ms'")
    with psycopg.connect(conninfo) as busy:
        busy.execute(sql.SQL("LOCK TABLE {}").format(sql.Identifier(name, "jobs")))
        other = own.take()
        assert other != name
        own.give_back(other)
        assert own.take() == other


def test_what_has_grown_is_not_used_again(own: Schemas) -> None:
    name = own.take()
    grow = (
        "INSERT INTO {} (token, acquired_at, name) SELECT 1, now(), n FROM generate_series(1, %s) n"
    )
    own.connected().execute(sql.SQL(grow).format(sql.Identifier(name, "locks")), [20_000])
    own.give_back(name)
    assert own.take() != name


def test_when_all_sessions_were_ended_there_is_a_new_one(own: Schemas) -> None:
    name = own.take()
    own.connected().close()
    own.give_back(name)
    assert own.take() == name
    own.connected().execute("BEGIN")
    with pytest.raises(psycopg.errors.UndefinedTable):
        own.connected().execute("SELECT FROM nowhere")
    own.give_back(name)
    assert own.take() == name


def test_what_was_begun_in_the_kept_session_is_not_what_a_schema_is_emptied_in(
    own: Schemas, conninfo: str
) -> None:
    name = own.take()
    own.connected().execute(a_row_in(name))
    own.connected().execute("BEGIN")
    own.give_back(name)
    assert own.take() == name
    with psycopg.connect(conninfo) as looking:
        count = looking.execute(
            sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name, "locks"))
        ).fetchone()
    assert count == (0,)
