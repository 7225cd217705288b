"""Who waits for which name, and who is called for a wake."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from alkstore_postgres.wakes.channel import wake_channel
from alkstore_postgres.wakes.waiters import Sink, Waiters
from tests.support.broken_log import broken_log


def test_every_plain_sink_of_the_name_is_called_and_no_other() -> None:
    waiters = Waiters()
    heard: list[tuple[int, str]] = []
    for number, name in enumerate(("x", "x", "y")):
        waiters.add(name, lambda woken, number=number: heard.append((number, woken)))  # type: ignore[misc]
    waiters.wake("x")
    assert heard == [(0, "x"), (1, "x")]


def test_one_shared_sink_is_called_and_each_of_them_in_the_long_run() -> None:
    waiters = Waiters()
    counts = [0] * 4

    def count(number: int) -> None:
        counts[number] += 1

    for number in range(4):
        waiters.add("x", lambda _, number=number: count(number), shared=True)  # type: ignore[misc]
    for _ in range(400):
        waiters.wake("x")
    assert sum(counts) == 400
    assert min(counts) > 0


def test_after_a_reconnection_everyone_is_called() -> None:
    waiters = Waiters()
    heard: list[str] = []
    for shared in (False, True, True):
        waiters.add("x", heard.append, shared=shared)
    waiters.wake_all()
    assert heard == ["x"] * 3


def test_a_sink_may_be_added_twice_and_removed_once() -> None:
    waiters = Waiters()
    heard: list[str] = []
    waiters.add("x", heard.append)
    waiters.add("x", heard.append)
    waiters.remove("x", heard.append)
    waiters.wake("x")
    assert heard == ["x"]
    assert waiters.somebody
    waiters.remove("x", heard.append)
    waiters.remove("x", heard.append)
    waiters.wake("x")
    assert heard == ["x"]
    assert not waiters._sinks


def test_it_says_whether_there_is_anybody() -> None:
    waiters = Waiters()
    heard: list[str] = []
    told = [waiters.somebody]
    waiters.add("x", heard.append)
    waiters.add("y", heard.append, shared=True)
    for name in ("x", "nobody's", "y"):
        waiters.remove(name, heard.append)
        told.append(waiters.somebody)
    assert told == [False, True, True, False]


def test_one_that_a_signal_handler_adds_while_the_last_one_leaves_is_somebody() -> None:
    heard: list[str] = []

    class Struck(dict[str, tuple[Sink, ...]]):
        """As the handler of a signal that comes while it is asked whether it is empty."""

        def __bool__(self) -> bool:
            if not heard:
                heard.append("struck")
                waiters.add("y", heard.append)
                return False  # as it was when that was asked
            return len(self) > 0

    waiters = Waiters()
    waiters.add("x", heard.append)
    waiters._sinks = Struck(waiters._sinks)
    waiters.remove("x", heard.append)
    assert waiters.somebody
    waiters.wake("y")
    assert heard == ["struck", "y"]


def test_failures_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def fail(name: str) -> None:
        raise ValueError(name)

    waiters = Waiters()
    waiters.add("x", fail)
    for _ in range(50):
        waiters.wake("x")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_log_that_fails_keeps_nobody_from_his_wake() -> None:
    def fail(name: str) -> None:
        raise ValueError(name)

    waiters = Waiters()
    heard: list[str] = []
    waiters.add("x", fail)
    waiters.add("x", heard.append)
    with broken_log("alkstore_postgres") as log:
        waiters.wake("x")
    assert heard == ["x"]
    assert len(log.refused) == 1


def test_a_wake_for_one_who_has_just_left_goes_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    waiters = Waiters()
    late: list[str] = []
    heard: list[str] = []
    leaves, stays = late.append, heard.append
    waiters.add("x", leaves, shared=True)
    waiters.add("x", stays, shared=True)

    def choose(shared: Sequence[Sink]) -> Sink:
        # Chosen, and gone before it is called: whoever it was has looked for its wake already.
        if leaves in shared:
            waiters.remove("x", leaves)
            return leaves
        return shared[0]

    monkeypatch.setattr("alkstore_postgres.wakes.waiters.random.choice", choose)
    waiters.wake("x")
    assert (late, heard) == (["x"], ["x"])


def test_a_wake_for_one_who_stays_goes_to_nobody_else() -> None:
    waiters = Waiters()
    heard: list[str] = []
    for _ in range(5):
        waiters.add("x", heard.append, shared=True)
    waiters.wake("x")
    assert heard == ["x"]


def test_a_wake_for_the_only_one_who_has_just_left_is_nobodys() -> None:
    waiters = Waiters()
    late: list[str] = []

    def leaves(name: str) -> None:
        late.append(name)
        waiters.remove("x", leaves)

    waiters.add("x", leaves, shared=True)
    waiters.wake("x")
    assert late == ["x"]


def test_sinks_come_and_go_while_wakes_arrive() -> None:
    waiters = Waiters()
    steady: list[str] = []
    waiters.add("x", steady.append)
    stop = threading.Event()

    def come_and_go() -> None:
        mine: list[str] = []
        while not stop.is_set():
            waiters.add("x", mine.append)
            waiters.remove("x", mine.append)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2_000):
        waiters.wake("x")
    stop.set()
    for thread in threads:
        thread.join()
    assert len(steady) == 2_000
    assert len(waiters._sinks["x"]) == 1


@pytest.mark.parametrize("schema", ["alkstore", "A b", 's"; drop', "漢" * 20, "x" * 63])
def test_a_schemas_channel_is_a_plain_identifier(schema: str) -> None:
    channel = wake_channel(schema)
    assert channel.isascii()
    assert channel == channel.lower()
    assert channel.isidentifier()
    assert len(channel) <= 63
    assert channel != wake_channel(schema + "x")
