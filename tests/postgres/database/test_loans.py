"""A loan of the store's own connection leaves nothing behind in the driver or in names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import StrDumper

from alkstore import DatabaseError
from alkstore._typing import override
from alkstore_postgres import PostgresStore

TEXT = "é 字 🦉"

OpenStore = Callable[..., PostgresStore]


class Shouting(StrDumper):
    """A dumper that writes something else."""

    @override
    def dump(self, obj: str) -> bytes:
        return obj.upper().encode()


@pytest.fixture
def narrow(open_store: OpenStore) -> PostgresStore:
    """A store with one connection."""
    return open_store(min_size=1, max_size=1)


def pid(connection: psycopg.Connection[Any]) -> int:
    return connection.info.backend_pid


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("name", ["é", TEXT])
def test_a_client_encoding_that_was_set_on_a_loan_changes_no_name(
    narrow: PostgresStore, open_store: OpenStore, name: str, *, raises: bool
) -> None:
    queue = narrow.queue(name)
    queue.enqueue(0)
    with suppress(ZeroDivisionError), narrow.transaction() as own:
        own.execute("SET client_encoding TO 'LATIN1'")
        if raises:
            own.execute("COMMIT")  # a rollback would set it back
            1 / 0  # noqa: B018 - fails
    queue.enqueue(1)
    other = open_store()
    assert [job.queue for job in other.queue(name).claim("w", 5)] == [name] * 2
    with narrow.lock(name, ttl=60):
        assert other.try_lock(name, ttl=60) is None


def test_a_client_encoding_for_one_transaction_costs_no_connection(narrow: PostgresStore) -> None:
    seen = []
    for _ in range(2):
        with narrow.transaction() as own:
            own.execute("SET LOCAL client_encoding TO 'LATIN1'")
            seen.append(pid(own))
    assert seen[0] == seen[1]


def test_the_driver_s_settings_of_a_loan_end_with_it(narrow: PostgresStore) -> None:
    heard: list[object] = []
    with narrow.transaction() as own:
        first = pid(own)
        own.row_factory = dict_row
        own.cursor_factory = psycopg.ClientCursor
        own.prepare_threshold = 0
        own.prepared_max = 1
        own.adapters.register_dumper(str, Shouting)
        own.add_notice_handler(heard.append)
    with narrow.transaction() as own:
        assert pid(own) == first
        assert own.execute("SELECT %s::text", ["quiet"]).fetchone() == ("quiet",)
        assert own.cursor_factory is psycopg.Cursor
        assert own.prepare_threshold is None
        assert own.prepared_max == 100
        own.execute("DO $$ BEGIN RAISE WARNING 'anybody?'; END $$")
    assert heard == []


def test_a_loan_that_was_committed_by_hand_and_left_out_of_autocommit_ends_the_connection(
    narrow: PostgresStore,
) -> None:
    with narrow.transaction() as own:
        first = pid(own)
        own.execute("COMMIT")
        own.autocommit = False
    narrow.queue("mail").enqueue(1)
    with narrow.transaction() as own:
        assert pid(own) != first
        assert own.autocommit
    assert narrow.queue("mail").size() == 1


@pytest.mark.parametrize("fault", ["error", "lost"])
def test_a_block_that_cannot_be_committed_says_so_though_its_error_was_handled(
    store: PostgresStore, fault: str
) -> None:
    """Leaving the block commits: what handled the error inside it would believe so."""

    def handles_the_error() -> None:
        with store.transaction() as own:
            store.enqueue_tx(own, "mail", 1)
            with suppress(psycopg.Error):
                own.execute(
                    "SELECT 1/0"
                    if fault == "error"
                    else "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())"
                )

    with pytest.raises(DatabaseError, match="nothing of the block was committed") as caught:
        handles_the_error()
    assert (caught.value.sqlstate, caught.value.retryable) == {
        "error": ("25P02", False),
        "lost": (None, True),
    }[fault]
    assert store.queue("mail").size() == 0
    with store.transaction() as own:  # a savepoint of the application's own saves the rest
        store.enqueue_tx(own, "mail", 2)
        with suppress(psycopg.Error), own.transaction():
            own.execute("SELECT 1/0")
    assert store.queue("mail").size() == 1
