"""The tools that race tests stand on do what they say."""

from __future__ import annotations

import os
import signal
import threading
import time

import psycopg
import pytest

from tests.support.processes import Children, Parent
from tests.support.proxy import Proxy
from tests.support.sql_probe import SqlProbe
from tests.support.waiting import wait_until


def test_a_probe_counts_round_trips_and_statements_exactly(sql_probe: SqlProbe) -> None:
    with psycopg.connect(sql_probe.conninfo, autocommit=True) as connection:
        with sql_probe.watching() as nothing:
            pass
        with sql_probe.watching() as simple:
            connection.execute("SELECT 1")
        with sql_probe.watching() as extended, connection.transaction():
            connection.execute("SELECT %s::int", [1])
        with sql_probe.watching() as prepared:
            for number in range(2):
                connection.execute("SELECT %s::int", [number], prepare=True)
        with sql_probe.watching() as many, connection.cursor() as cursor:
            cursor.executemany("SELECT %s::bigint", [(1,), (2,), (3,)])
    assert (nothing.round_trips, nothing.statements) == (0, [])
    assert (simple.round_trips, simple.statements) == (1, ["SELECT 1"])
    assert extended.round_trips == 3
    assert extended.statements == ["BEGIN", "SELECT $1::int", "COMMIT"]
    assert prepared.round_trips == 3  # the first one is prepared apart
    assert prepared.statements == ["SELECT $1::int"] * 2
    assert [text for text in many.statements if "bigint" in text] == ["SELECT $1::bigint"] * 3


def test_a_probe_counts_two_connections_apart(sql_probe: SqlProbe) -> None:
    with (
        psycopg.connect(sql_probe.conninfo, autocommit=True) as one,
        psycopg.connect(sql_probe.conninfo, autocommit=True) as two,
        sql_probe.watching() as traffic,
    ):
        one.execute("SELECT %s::int", [1])
        two.execute("SELECT %s::text", ["a"])
    assert traffic.statements == ["SELECT $1::int", "SELECT $1::text"]


def test_a_cut_ends_connections_and_lets_new_ones_pass(proxy: Proxy) -> None:
    with psycopg.connect(proxy.conninfo, autocommit=True) as connection:
        connection.execute("SELECT 1")
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with psycopg.connect(proxy.conninfo) as connection:
        connection.execute("SELECT 1")
    assert proxy.accepted == 2


def test_a_stall_keeps_everything_back_and_loses_nothing(proxy: Proxy) -> None:
    with psycopg.connect(proxy.conninfo, autocommit=True) as connection:
        connection.execute("SELECT 1")
        proxy.stall()
        answers: list[object] = []
        asking = threading.Thread(
            target=lambda: answers.append(connection.execute("SELECT 2").fetchone())
        )
        asking.start()
        asking.join(0.3)
        assert asking.is_alive()
        proxy.resume()
        asking.join(10)
    assert answers == [(2,)]


def test_a_revival_loses_what_was_kept_back_and_lets_new_connections_pass(
    proxy: Proxy, conninfo: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as direct:
        with psycopg.connect(proxy.conninfo, autocommit=True) as connection:
            connection.execute("SELECT 1")
            proxy.stall()
            raised: list[BaseException] = []

            def ask() -> None:
                try:
                    connection.execute("SELECT pg_advisory_lock(4711)")
                except psycopg.OperationalError as error:
                    raised.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            asking.join(0.3)
            assert asking.is_alive()
            proxy.revive()
            asking.join(10)
            assert raised
        with psycopg.connect(proxy.conninfo) as connection:
            connection.execute("SELECT 1")
        held = direct.execute("SELECT count(*) FROM pg_locks WHERE objid = 4711").fetchone()
        assert held == (0,), "the statement never reached the server"


def test_a_deaf_way_drops_notifications_and_nothing_else(proxy: Proxy) -> None:
    with psycopg.connect(proxy.conninfo, autocommit=True) as connection:
        connection.execute("LISTEN deaf")
        for proxy.swallows, heard in ((False, 1), (True, 0), (False, 1)):
            connection.execute("NOTIFY deaf")
            rows = connection.execute("SELECT n FROM generate_series(1, 50000) AS n").fetchall()
            assert len(rows) == 50_000
            assert len(list(connection.notifies(timeout=0.2))) == heard


def test_a_client_that_would_encrypt_gets_through_in_the_clear(proxy: Proxy) -> None:
    with psycopg.connect(proxy.conninfo, sslmode="prefer") as connection:
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="SSL"):
        psycopg.connect(proxy.conninfo, sslmode="require")


def echo(parent: Parent, word: str) -> None:
    print("not a message")  # noqa: T201 - must not disturb the messages
    parent.say(word)
    parent.barrier()
    parent.say([parent.hear(), os.getpid()])


def dawdle(parent: Parent) -> None:
    parent.say("here")
    time.sleep(60)


def test_a_child_that_takes_too_long_shows_where_it_was(children: Children) -> None:
    child = children.start(dawdle)
    assert child.hear() == "here"
    with pytest.raises(AssertionError, match=r"went on for 0\.2 s\n(.|\n)*in dawdle"):
        child.wait(0.2)


def test_children_talk_and_are_released_together(children: Children) -> None:
    one, two = (children.start(echo, word) for word in ("one", "two"))
    assert (one.hear(), two.hear()) == ("one", "two")
    children.release()
    one.say({"a": [1, None]})
    two.say("b")
    assert one.hear() == [{"a": [1, None]}, one.pid]
    assert two.hear() == ["b", two.pid]
    one.finish()
    two.finish()
    assert "not a message" in one.errors()


def test_a_frozen_child_goes_on_where_it_was(children: Children) -> None:
    child = children.start(echo, "here")
    assert child.hear() == "here"
    children.release()
    child.freeze()
    child.say("word")
    with pytest.raises(AssertionError, match="said nothing"):
        child.hear(0.3)
    child.thaw()
    assert child.hear() == ["word", child.pid]
    child.finish()


def test_a_killed_child_is_gone(children: Children) -> None:
    child = children.start(echo, "here")
    child.hear()
    child.kill()
    assert not child.alive
    assert child.wait() == -signal.SIGKILL


def fail(parent: Parent) -> None:
    raise RuntimeError("oh")


def test_the_failure_of_a_child_is_told(children: Children) -> None:
    child = children.start(fail)
    with pytest.raises(AssertionError, match=r"(?s)ended.*RuntimeError: oh"):
        child.hear()
    with pytest.raises(AssertionError, match="ended with 1"):
        child.finish()


def nest(parent: Parent) -> None:
    with Children() as children:
        grandchild = children.start(echo, "deep")
        grandchild.hear()
        parent.say(grandchild.pid)
        parent.hear()


def test_children_of_a_killed_process_end(children: Children) -> None:
    child = children.start(nest)
    grandchild = child.hear()
    child.kill()

    def is_gone() -> bool:
        try:
            os.kill(grandchild, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_gone)
