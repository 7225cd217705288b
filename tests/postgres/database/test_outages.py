"""A database that is away, restarts or kills sessions: what a caller sees of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

import alkstore
import alkstore_postgres
from alkstore_postgres import PostgresStore, embedded
from alkstore_postgres.database.pools import is_dead
from tests.support.pooler import pooler
from tests.support.proxy import Proxy
from tests.support.sessions import kill_sessions
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until


def use(store: PostgresStore) -> None:
    """One call of each kind."""
    queue = store.queue("mail")
    queue.enqueue(1)
    queue.enqueue_many([1, 2])
    queue.ack_many(queue.claim("w", 3))
    store.try_lock("lock", ttl=1)
    store.schedule("s", "@every 1h", "mail", 1)
    with store.transaction() as own:
        store.enqueue_tx(own, "other", 1)


def fill(store: PostgresStore, size: int) -> None:
    """Have the pool hold *size* idle connections."""
    barrier = threading.Barrier(size)

    def hold() -> None:
        with store.transaction() as own:
            own.execute("SELECT 1")
            barrier.wait(10)

    threads = [threading.Thread(target=hold) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_after_a_restart_the_next_call_works(
    own_server: embedded.EmbeddedServer, mode: str
) -> None:
    """Field case B07: several idle connections died; nobody is told."""
    with alkstore_postgres.open(own_server.url, min_size=4, max_size=4) as store:
        for _ in range(2):
            fill(store, 4)
            own_server.restart(mode)
            use(store)


def test_after_all_sessions_were_killed_the_next_call_works(
    conninfo: str, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B39."""
    told = make_conninfo(conninfo, application_name=schema)
    with alkstore_postgres.open(told, schema) as store:
        for _ in range(5):
            fill(store, 3)
            use(store)
            kill(connection, schema)
            use(store)


def test_a_lent_pool_is_no_different(
    conninfo: str, connection: psycopg.Connection[Any], schema: str
) -> None:
    told = make_conninfo(conninfo, application_name=schema)
    with ConnectionPool(told, min_size=3, max_size=3, open=True) as pool:
        store = PostgresStore(pool, schema)
        for _ in range(3):
            fill(store, 3)
            kill(connection, schema)
            use(store)
        store.close()


def kill(connection: psycopg.Connection[Any], application: str) -> None:
    """Kill the sessions of *application*, and return when they are gone."""
    query = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
    )
    assert connection.execute(query, [application]).rowcount > 0


def test_a_long_outage_fails_fast_and_is_over_at_once(
    own_server: embedded.EmbeddedServer,
) -> None:
    """Field case B83."""
    with alkstore_postgres.open(own_server.url, timeout=0.5) as store:
        use(store)
        own_server.halt("immediate")
        ends = time.monotonic() + 9
        while time.monotonic() < ends:
            with Stopwatch() as watch, pytest.raises(alkstore.DatabaseError) as caught:
                store.queue("mail").enqueue(1)
            assert caught.value.retryable
            assert watch.seconds < 1.5
        own_server.resume()
        with Stopwatch() as watch:
            wait_until(lambda: works(store), 30)
        assert watch.seconds < 5


def works(store: PostgresStore) -> bool:
    """Return whether the database can be had."""
    try:
        store.queue("mail").enqueue(1)
    except alkstore.DatabaseError:
        return False
    return True


def test_a_session_killed_within_a_statement_is_told_and_nothing_repeated(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    lock(connection, schema, when="BEFORE INSERT")
    caught = InThread(lambda: store.queue("mail").enqueue(1))
    wait_until(lambda: held_up(connection) == 1)
    kill_sessions(connection, schema)
    error = caught.result()
    assert isinstance(error, alkstore.DatabaseError)
    assert (error.sqlstate, error.retryable) == ("57P01", True)
    unlock(connection)
    assert store.queue("mail").size() == 0


def test_a_commit_whose_outcome_is_unknown_is_told_and_never_repeated(
    conninfo: str, connection: psycopg.Connection[Any], schema: str
) -> None:
    alkstore_postgres.migrate(conninfo, schema)
    with (
        Proxy(conninfo) as proxy,
        alkstore_postgres.open(proxy.conninfo, schema, migrate=False) as store,
    ):
        for call in (
            lambda: store.queue("mail").enqueue(1),
            lambda: store.queue("mail").enqueue_many([1]),
            lambda: in_transaction(store),
        ):
            before = store.queue("mail").size()
            lock(connection, schema, when="AFTER INSERT")  # deferred: at the commit
            caught = InThread(call)
            wait_until(lambda: held_up(connection) == 1)
            proxy.cut()
            error = caught.result()
            assert isinstance(error, alkstore.DatabaseError)
            assert error.retryable
            unlock(connection)
            wait_until(lambda: held_up(connection) == 0)
            wait_until(partial(has, store, before + 1))


def has(store: PostgresStore, jobs: int) -> bool:
    return store.queue("mail").size() == jobs


def in_transaction(store: PostgresStore) -> None:
    with store.transaction() as own:
        store.enqueue_tx(own, "mail", 1)


class InThread:
    """A call under way."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._call()
        except Exception as error:  # noqa: BLE001 - it is the outcome
            self._outcome = error

    def result(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self._outcome


def lock(connection: psycopg.Connection[Any], schema: str, when: str) -> None:
    """Let every enqueue of the schema wait for the lock 43."""
    constraint = "CONSTRAINT " if when.startswith("AFTER") else ""
    deferred = "DEFERRABLE INITIALLY DEFERRED " if constraint else ""
    place = sql.Identifier(schema)
    connection.execute("SELECT pg_advisory_lock(43)")
    connection.execute(
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {}.hold() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(43); RETURN NEW; END $$"
        ).format(place)
    )
    connection.execute(sql.SQL("DROP TRIGGER IF EXISTS hold ON {}.jobs").format(place))
    connection.execute(
        sql.SQL(
            f"CREATE {constraint}TRIGGER hold {when} ON {{0}}.jobs {deferred}"
            " FOR EACH ROW EXECUTE FUNCTION {0}.hold()"
        ).format(place)
    )


def unlock(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT pg_advisory_unlock(43)")


def held_up(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 43 AND NOT granted"
    ).fetchone()
    assert row is not None
    number: int = row[0]
    return number


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_conflict_is_tried_again_and_told_when_it_does_not_end(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str, state: str
) -> None:
    place = sql.Identifier(schema)
    for statement in (
        "CREATE SEQUENCE {}.tries",
        (
            "CREATE FUNCTION {0}.bump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF nextval(TG_ARGV[0]) <= 4 THEN RAISE SQLSTATE '{state}'; END IF;"
            " RETURN NEW; END $$"
        ),
    ):
        connection.execute(sql.SQL(statement).format(place))
    counter = sql.Literal(sql.Identifier(schema, "tries").as_string(None))
    connection.execute(
        sql.SQL(
            "CREATE TRIGGER bump BEFORE INSERT ON {0}.jobs FOR EACH ROW"
            " EXECUTE FUNCTION {0}.bump({1})"
        ).format(place, counter)
    )
    for call in (store.queue("mail").enqueue, lambda x: store.queue("mail").enqueue_many([x])):
        connection.execute(sql.SQL("ALTER SEQUENCE {}.tries RESTART").format(place))
        call(1)
    assert store.queue("mail").size() == 2
    connection.execute(sql.SQL("ALTER SEQUENCE {}.tries RESTART WITH 1").format(place))
    connection.execute(sql.SQL("ALTER SEQUENCE {}.tries MINVALUE -99 RESTART -90").format(place))
    with pytest.raises(alkstore.DatabaseError) as caught:
        store.queue("mail").enqueue(1)
    assert (caught.value.sqlstate, caught.value.retryable) == (state, True)
    last = connection.execute(sql.SQL("SELECT last_value FROM {}.tries").format(place)).fetchone()
    assert last == (-81,)  # ten tries


@pytest.fixture(scope="module")
def encrypted(conninfo: str) -> Iterator[str]:
    """A way to the server that speaks TLS; not every build of the server does."""
    with pooler(conninfo, "session", encrypted=True) as url:
        yield url


class TestIsDead:
    """A look without a round trip."""

    @pytest.fixture(params=["plain", "TLS"])
    def url(self, request: pytest.FixtureRequest, conninfo: str) -> str:
        if request.param == "plain":
            return conninfo
        url: str = request.getfixturevalue("encrypted")
        return url

    def test_an_idle_connection_is_not(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.pgconn.ssl_in_use == ("sslmode=require" in url)
            for _ in range(20):
                assert not is_dead(connection)
                connection.execute("SELECT repeat('x', 100000)")

    def test_nor_is_one_with_a_notice_or_a_notification(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            heard: list[str] = []
            connection.add_notify_handler(lambda notify: heard.append(notify.payload))
            connection.execute("LISTEN somebody")
            with psycopg.connect(url, autocommit=True) as other:
                for number in range(100):
                    other.execute("SELECT pg_notify('somebody', %s)", [str(number) * 50])
            wait_until(lambda: not is_dead(connection) and reads(connection))
            assert not is_dead(connection)
            connection.execute("SELECT 1")
            assert len(heard) == 100

    def test_a_killed_one_is(self, url: str, conninfo: str) -> None:
        with psycopg.connect(conninfo, autocommit=True) as admin:
            for _ in range(10):
                connection = psycopg.connect(url)
                connection.autocommit = True
                row = connection.execute("SELECT pg_backend_pid()").fetchone()
                assert row is not None
                pid = row[0]
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
                wait_until(partial(is_dead, connection), 1)
                connection.close()

    def test_a_closed_one_is(self, url: str) -> None:
        connection = psycopg.connect(url)
        connection.close()
        assert is_dead(connection)


def reads(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has had the time to send all of it."""
    time.sleep(0.05)
    return True
