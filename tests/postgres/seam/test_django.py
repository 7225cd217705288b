"""The seam on connections of Django: ``atomic`` decides, for each alias by itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection as default_connection  # type: ignore[import-untyped]
from django.db import connections, transaction

import alkstore
from alkstore_postgres import PostgresStore
from tests.support.carriers import configure_django


@pytest.fixture(autouse=True)
def _django(conninfo: str) -> Iterator[None]:
    configure_django(conninfo)
    yield
    connections.close_all()


def size(store: PostgresStore) -> int:
    return store.queue("mail").size()


@pytest.mark.parametrize("alias", ["default", "other"])
def test_atomic_decides(store: PostgresStore, alias: str) -> None:
    """Field case B130."""
    with transaction.atomic(using=alias):
        store.enqueue_tx(connections[alias], "mail", 1)
        assert size(store) == 0
    assert size(store) == 1
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):  # noqa: PT012 - a transaction
        store.enqueue_tx(connections[alias], "mail", 2)
        raise ZeroDivisionError
    assert size(store) == 1


def test_the_connection_of_the_default_alias_may_be_given_as_django_names_it(
    store: PostgresStore,
) -> None:
    with transaction.atomic():
        store.enqueue_tx(default_connection, "mail", 1)
    assert size(store) == 1


def test_an_inner_block_that_fails_takes_its_jobs_only(store: PostgresStore) -> None:
    with transaction.atomic():
        store.enqueue_tx(default_connection, "mail", "outer")
        with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012 - a transaction
            store.enqueue_tx(default_connection, "mail", "inner")
            raise ZeroDivisionError
    assert [job.payload for job in store.queue("mail").claim("w", 10)] == ["outer"]


def test_outside_of_atomic_it_is_refused_before_anything_is_opened(store: PostgresStore) -> None:
    assert connections["other"].connection is None
    with pytest.raises(alkstore.NoTransaction, match="atomic"):
        store.enqueue_tx(connections["other"], "mail", 1)
    assert connections["other"].connection is None
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT 1")
    with pytest.raises(alkstore.NoTransaction, match="atomic"):
        store.enqueue_tx(connections["other"], "mail", 1)


def test_the_atomic_block_of_another_alias_does_not_count(store: PostgresStore) -> None:
    with transaction.atomic(using="other"), pytest.raises(alkstore.NoTransaction):
        store.enqueue_tx(connections["default"], "mail", 1)


def test_with_autocommit_switched_off_each_statement_is_in_a_transaction(
    store: PostgresStore,
) -> None:
    store.enqueue_tx(connections["manual"], "mail", 1)
    transaction.rollback(using="manual")
    store.enqueue_tx(connections["manual"], "mail", 2)
    transaction.commit(using="manual")
    assert [job.payload for job in store.queue("mail").claim("w", 10)] == [2]


def test_a_block_that_is_marked_for_rollback_is_told(store: PostgresStore) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic(savepoint=False):
            raise ZeroDivisionError
        with pytest.raises(alkstore.DatabaseError, match="marked for rollback"):
            store.enqueue_tx(default_connection, "mail", 1)
    assert size(store) == 0


def test_another_kind_of_database_is_a_type_error(store: PostgresStore) -> None:
    with transaction.atomic(using="lite"), pytest.raises(TypeError, match="sqlite"):
        store.enqueue_tx(connections["lite"], "mail", 1)


def test_django_looks_at_a_connection_that_was_lost(
    store: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    with pytest.raises(alkstore.DatabaseError) as caught, transaction.atomic():  # noqa: PT012 - a transaction
        with default_connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
        store.enqueue_tx(default_connection, "mail", 1)
    assert caught.value.retryable
    default_connection.close_if_unusable_or_obsolete()  # what Django does after a request
    with transaction.atomic():
        store.enqueue_tx(default_connection, "mail", 2)
    assert size(store) == 1


def test_on_commit_hooks_run_after_the_job_is_there(store: PostgresStore) -> None:
    seen: list[int] = []
    with transaction.atomic():
        store.enqueue_tx(default_connection, "mail", 1)
        transaction.on_commit(lambda: seen.append(size(store)))
    assert seen == [1]


def test_the_older_back_end_over_psycopg2_works_alike(conninfo: str, schema: str) -> None:
    """Django takes psycopg 2 where it finds no psycopg 3 that suits it."""
    script = f"""
        import sys
        import psycopg
        import alkstore, alkstore_postgres
        from tests.support.carriers import configure_django
        configure_django({conninfo!r})
        sys.modules["psycopg"] = None
        import django.db.backends.postgresql.base
        sys.modules["psycopg"] = psycopg
        from django.db import connection, transaction
        store = alkstore_postgres.open({conninfo!r}, {schema!r})
        try:
            store.enqueue_tx(connection, "mail", 1)
        except alkstore.NoTransaction:
            pass
        with transaction.atomic():
            store.enqueue_tx(connection, "mail", "kept")
            try:
                with transaction.atomic():
                    store.enqueue_tx(connection, "mail", "lost")
                    1 / 0
            except ZeroDivisionError:
                pass
        assert type(connection.connection).__module__.startswith("psycopg2")
        print(*[job.payload for job in store.queue("mail").claim("w", 10)])
        connection.close()
        store.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "kept\n"
