"""Migrations: forward only, each whole or not at all, whoever else migrates."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import alkstore
import alkstore_postgres
from alkstore_postgres.schema import migrator
from alkstore_postgres.schema.migrator import Migration, Migrator, migrations
from tests.support.catalogue import catalogue
from tests.support.processes import Children, Parent
from tests.support.waiting import wait_until

NEWEST = migrations()[-1]
APPLIED = [f"{one.version:04}_{one.name}" for one in migrations()]


@pytest.fixture(scope="module")
def whole(conninfo: str) -> Iterator[list[str]]:
    """What a schema holds that one process has migrated undisturbed."""
    name = f"whole {secrets.token_hex(4)}"
    alkstore_postgres.migrate(conninfo, name)
    yield catalogue(conninfo, name)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def add_version(connection: psycopg.Connection[Any], schema: str, compatible_from: int) -> None:
    """Record a migration that only newer code knows."""
    query = sql.SQL("INSERT INTO {} VALUES (%s, %s, now(), 'newer')")
    table = sql.Identifier(schema, "migrations")
    connection.execute(query.format(table), [NEWEST.version + 1, compatible_from])


def test_migrating_twice_changes_nothing_the_second_time(conninfo: str, schema: str) -> None:
    assert alkstore_postgres.migrate(conninfo, schema) == APPLIED
    before = catalogue(conninfo, schema)
    assert alkstore_postgres.migrate(conninfo, schema) == []
    assert catalogue(conninfo, schema) == before


def test_the_schema_is_the_sum_of_its_migrations(conninfo: str, schema: str) -> None:
    alkstore_postgres.migrate(conninfo, schema)
    told = Path(__file__).parent / "expected.txt"
    assert catalogue(conninfo, schema) == told.read_text(encoding="utf-8").splitlines()


def test_opening_migrates_unless_told_not_to(conninfo: str, schema: str) -> None:
    with pytest.raises(alkstore.SchemaOutdated, match=r"alkstore_postgres\.migrate"):
        alkstore_postgres.open(conninfo, schema, migrate=False)
    assert catalogue(conninfo, schema) == []
    alkstore_postgres.open(conninfo, schema).close()
    alkstore_postgres.open(conninfo, schema, migrate=False).close()


class TestVersions:
    """Field case B96: which code works on which schema."""

    def test_an_older_schema_is_refused_without_the_right_to_migrate(
        self, conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alkstore_postgres.migrate(conninfo, schema)
        newer_code(monkeypatch, "SELECT 1")
        with pytest.raises(alkstore.SchemaOutdated):
            alkstore_postgres.open(conninfo, schema, migrate=False)
        with alkstore_postgres.open(conninfo, schema) as store:
            store.queue("mail").enqueue(1)

    def test_a_newer_schema_that_is_compatible_works_whole(
        self, connection: psycopg.Connection[Any], conninfo: str, schema: str
    ) -> None:
        alkstore_postgres.migrate(conninfo, schema)
        add_version(connection, schema, compatible_from=NEWEST.version)
        for migrate in (True, False):
            with alkstore_postgres.open(conninfo, schema, migrate=migrate) as store:
                store.queue("mail").enqueue(1)
                assert store.queue("mail").claim("w")[0].ack()
                store.schedule("s", "@every 1h", "mail", 1)
                store.run_now("s")
                store.outbox("o").enqueue(1)
                assert store.outbox("o").run_once("w", lambda _: None)

    def test_a_newer_schema_that_is_not_is_refused(
        self, connection: psycopg.Connection[Any], conninfo: str, schema: str
    ) -> None:
        alkstore_postgres.migrate(conninfo, schema)
        add_version(connection, schema, compatible_from=NEWEST.version + 1)
        for migrate in (True, False):
            with pytest.raises(alkstore.SchemaTooNew, match="upgrade"):
                alkstore_postgres.open(conninfo, schema, migrate=migrate)
        with pytest.raises(alkstore.SchemaTooNew):
            alkstore_postgres.migrate(conninfo, schema)

    def test_code_that_waited_while_newer_code_migrated_is_refused(
        self, conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both saw an old schema; the newer code was first."""
        with psycopg.connect(conninfo, autocommit=True) as late:
            older = Migrator(late, schema)
            check = older.check
            answers = iter([False])  # what it saw before it waited

            def look() -> bool:
                return next(answers, None) is not False and check()

            monkeypatch.setattr(older, "check", look)
            alkstore_postgres.migrate(conninfo, schema)
            add_version(late, schema, compatible_from=NEWEST.version + 1)
            with pytest.raises(alkstore.SchemaTooNew):
                older.migrate()


def newer_code(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have this process be of a version with one more migration."""
    added = Migration(NEWEST.version + 1, "added", text)
    monkeypatch.setattr(migrator, "migrations", lambda: (*migrations(), added))
    monkeypatch.setitem(migrator.COMPATIBLE_FROM, added.version, NEWEST.version)


class TestFailures:
    """Field case B100: what fails leaves nothing behind."""

    def test_the_first_one_leaves_no_schema(
        self, conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = Migration(1, "broken", "CREATE TABLE {schema}.jobs (n int); SELECT 1 / 0;")
        monkeypatch.setattr(migrator, "migrations", lambda: (broken,))
        with pytest.raises(alkstore.DatabaseError) as caught:
            alkstore_postgres.open(conninfo, schema)
        assert caught.value.sqlstate == "22012"
        assert catalogue(conninfo, schema) == []
        monkeypatch.undo()
        assert alkstore_postgres.migrate(conninfo, schema) == APPLIED

    def test_a_later_one_leaves_the_earlier_ones(
        self, conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alkstore_postgres.migrate(conninfo, schema)
        before = catalogue(conninfo, schema)
        newer_code(monkeypatch, "ALTER TABLE {schema}.jobs ADD COLUMN more int; SELECT 1 / 0;")
        with pytest.raises(alkstore.DatabaseError):
            alkstore_postgres.migrate(conninfo, schema)
        assert catalogue(conninfo, schema) == before
        monkeypatch.undo()
        alkstore_postgres.open(conninfo, schema).close()

    def test_a_table_of_somebody_else_is_told_and_left_alone(
        self, connection: psycopg.Connection[Any], conninfo: str, schema: str
    ) -> None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        table = sql.Identifier(schema, "migrations")
        connection.execute(sql.SQL("CREATE TABLE {} (id int)").format(table))
        with pytest.raises(alkstore.DatabaseError, match='"migrations" already exists'):
            alkstore_postgres.open(conninfo, schema)
        with pytest.raises(alkstore.SchemaOutdated):
            alkstore_postgres.open(conninfo, schema, migrate=False)
        assert catalogue(conninfo, schema) == ["migrations.id integer"]

    def test_a_database_that_is_not_utf8_is_refused(
        self, connection: psycopg.Connection[Any], conninfo: str
    ) -> None:
        name = f"latin_{secrets.token_hex(4)}"
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode()
        )
        try:
            for call in (alkstore_postgres.open, alkstore_postgres.migrate):
                with pytest.raises(alkstore.SchemaError, match="UTF8"):
                    call(make_conninfo(conninfo, dbname=name))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def test_an_old_server_is_refused(
        self, conninfo: str, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(migrator, "OLDEST_SERVER", 990_000)
        with pytest.raises(alkstore.SchemaError, match="PostgreSQL 14"):
            alkstore_postgres.open(conninfo, schema)


NAMES = [
    "UPPER case",
    'q"u"ote\'s',
    "50% {schema} %s %(name)s",
    "; DROP TABLE users; --",
    "back\\slash\nline",
    "字" * 21,
    "x" * 63,
    "public2",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_schema_name_is_an_identifier(
    connection: psycopg.Connection[Any], conninfo: str, name: str, whole: list[str]
) -> None:
    """Field cases B99 and B131."""
    try:
        with alkstore_postgres.open(conninfo, name) as store:
            store.queue("mail").enqueue_many([1, 2])
            assert len(store.queue("mail").claim("w", 2)) == 2
            store.schedule("s", "@every 1h", "mail", 1)
            with store.lock("lock", ttl=5), store.transaction() as own:
                store.enqueue_tx(own, "mail", 3)
        assert catalogue(conninfo, name) == whole
    finally:
        drop = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name))
        connection.execute(drop.as_bytes())


@pytest.mark.parametrize(
    "name", ["", "x" * 64, "字" * 22, "a\0b", "\ud800", "pg_mine", "information_schema", 7, None]
)
def test_what_cannot_be_a_schema_name_is_refused_before_connecting(name: Any) -> None:
    for call in (alkstore_postgres.open, alkstore_postgres.migrate):
        with pytest.raises(alkstore.InvalidOption, match="schema"):
            call("host=127.0.0.1 port=1", name)


class TestManyAtOnce:
    """Field case B98."""

    def test_many_processes_migrate_once(self, conninfo: str, whole: list[str]) -> None:
        schemas = [f"race {secrets.token_hex(4)}" for _ in range(6)]
        with Children() as children:
            several = [children.start(migrate_in_turns, conninfo, schemas) for _ in range(8)]
            for schema in schemas:
                children.release(60)
                outcomes = [child.hear(60) for child in several]
                assert sorted(outcomes) == [[]] * 7 + [APPLIED]
                assert catalogue(conninfo, schema) == whole
            for child in several:
                child.finish()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for schema in schemas:
                table = sql.Identifier(schema, "migrations")
                query = sql.SQL("SELECT count(*) FROM {}").format(table)
                assert connection.execute(query).fetchone() == (len(APPLIED),)
                drop = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema))
                connection.execute(drop)

    def test_one_that_is_killed_in_the_middle_leaves_the_work_to_the_others(
        self, database_url: str, whole: list[str]
    ) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection, Children() as children:
            hold_at_indexes(connection)
            victim = children.start(migrate_in_turns, database_url, ["killed"])
            children.release()
            wait_until(lambda: waiting(connection) == 1)
            others = [children.start(migrate_in_turns, database_url, ["killed"]) for _ in range(4)]
            for other in others:
                assert other.hear() == {"barrier": "ready"}
                other.say({"barrier": "go"})
            wait_until(lambda: waiting(connection) == 5)
            victim.kill()
            connection.execute("SELECT pg_advisory_unlock(42)")
            outcomes = [other.hear(60) for other in others]
            assert sorted(outcomes) == [[]] * 3 + [APPLIED]
        assert catalogue(database_url, "killed") == whole

    def test_none_of_it_is_a_lock_of_a_session(self, conninfo: str, schema: str) -> None:
        """Field case B117."""
        with psycopg.connect(conninfo, autocommit=True) as connection:
            assert Migrator(connection, schema).migrate() == APPLIED
            query = (
                "SELECT count(*) FROM pg_locks"
                " WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            )
            assert connection.execute(query).fetchone() == (0,)


def migrate_in_turns(parent: Parent, conninfo: str, schemas: list[str]) -> None:
    for schema in schemas:
        parent.barrier()
        parent.say(alkstore_postgres.migrate(conninfo, schema))


def hold_at_indexes(connection: psycopg.Connection[Any]) -> None:
    """Let every ``CREATE INDEX`` of this database wait until the lock 42 is free."""
    connection.execute("SELECT pg_advisory_lock(42)")
    connection.execute(
        "CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); END $$"
    )
    connection.execute(
        "CREATE EVENT TRIGGER hold ON ddl_command_start WHEN TAG IN ('CREATE INDEX')"
        " EXECUTE FUNCTION public.hold()"
    )


def waiting(connection: psycopg.Connection[Any]) -> int:
    """Return how many sessions wait for an advisory lock."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    ).fetchone()
    assert row is not None
    number: int = row[0]
    return number
