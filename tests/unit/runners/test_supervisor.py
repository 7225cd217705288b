"""Supervised threads: they never die silently, and they always end."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest

from alkstore._typing import override
from alkstore.errors import InvalidOption, StoreClosed
from alkstore.runners.supervisor import Supervisor
from alkstore.traits import Runner
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

Body = Callable[["Plain"], None]


class Plain(Supervisor):
    """A supervisor of one body."""

    def __init__(self, body: Body, patience: float = 60.0) -> None:
        super().__init__("plain", patience)
        self.body = body
        self.turns = 0

    @override
    def _begin(self) -> None:
        self._spawn("body", self._run)

    def _run(self) -> None:
        self.turns += 1
        self.body(self)

    def idle(self) -> None:
        """Be a good body until the stop."""
        self._status.good("body", "working")
        self._token.wait()


@pytest.fixture
def runner() -> Iterator[Callable[..., Plain]]:
    """Make runners that are stopped in the end."""
    made: list[Plain] = []

    def make(body: Body, patience: float = 60.0) -> Plain:
        made.append(Plain(body, patience))
        return made[-1]

    yield make
    for one in made:
        assert one.stop(5)


def our_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("alkstore plain")]


def test_a_supervisor_is_a_runner(runner: Callable[..., Plain]) -> None:
    typed: Runner = runner(Plain.idle)
    assert typed.name == "plain"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("away"),
        KeyError("bug"),
        MemoryError(),
        RecursionError(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseException("injected"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_body_raises_it_starts_again(
    runner: Callable[..., Plain], error: BaseException
) -> None:
    """Field case B08."""

    def body(self: Plain) -> None:
        if self.turns <= 2:
            raise error
        self.idle()

    one = runner(body).start()
    wait_until(lambda: one.state == "working")
    assert one.turns == 3
    assert one.last_error is error
    health = one.health()
    assert health.healthy
    assert health.details["failures"] == 2


def test_a_body_that_always_fails_is_tried_again_without_a_hot_loop(
    runner: Callable[..., Plain],
) -> None:
    """Field case B08."""

    def body(self: Plain) -> None:
        raise KeyError(self.turns)

    one = runner(body).start()
    wait_until(lambda: one.turns >= 3)
    time.sleep(0.5)
    assert 3 <= one.turns <= 12
    assert one.state == "backing-off"


def test_a_long_outage_is_not_healthy_and_a_short_one_is(runner: Callable[..., Plain]) -> None:
    def body(self: Plain) -> None:
        raise KeyError(self.turns)

    one = runner(body).start()
    wait_until(lambda: one.state == "backing-off")
    assert one.health().healthy
    one._patience = 0.0
    wait_until(lambda: not one.health().healthy)
    assert "backing off" in (one.health().reason or "")


def test_an_old_last_good_turn_is_not_healthy(runner: Callable[..., Plain]) -> None:
    """Field cases B06 and B90."""
    one = runner(Plain.idle, patience=0.05).start()
    wait_until(lambda: not one.health().healthy)
    assert "last good turn was" in (one.health().reason or "")


def test_a_runner_without_any_good_turn_is_not_healthy(runner: Callable[..., Plain]) -> None:
    """Field case B90."""
    one = runner(lambda self: self._token.wait() and None, patience=0.05).start()
    wait_until(lambda: not one.health().healthy)
    assert "no good turn" in (one.health().reason or "")


def test_under_a_uwsgi_without_threads_it_says_that_it_does_not_advance(
    runner: Callable[..., Plain],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Field case B90; `uwsgi` is a module that uWSGI puts there."""
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(has_threads=0))
    one = runner(Plain.idle).start()
    wait_until(lambda: one.state == "working")
    assert not one.health().healthy
    assert "advance during requests only" in (one.health().reason or "")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(has_threads=1))
    assert one.health().healthy


def test_a_dead_thread_is_not_healthy(
    runner: Callable[..., Plain], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case B06: the thread itself is gone, not only its body."""
    one = runner(Plain.idle)
    monkeypatch.setattr(one, "_supervise", lambda _part, _body: None)
    one.start()
    wait_until(lambda: not one.health().healthy)
    assert "dead" in (one.health().reason or "")


def test_a_closed_store_ends_it_quietly_when_it_was_asked_to_end(
    runner: Callable[..., Plain], caplog: pytest.LogCaptureFixture
) -> None:
    def body(self: Plain) -> None:
        if self.turns == 1:
            self.idle()
            raise StoreClosed("the store is closed")

    one = runner(body).start()
    wait_until(lambda: one.state == "working")
    assert one.stop(5)
    assert one.state == "stopped"
    assert one.health().reason == "it was stopped"
    assert one.last_error is None
    assert not caplog.records


def test_a_store_that_closes_just_before_the_end_is_no_failure(
    runner: Callable[..., Plain], caplog: pytest.LogCaptureFixture
) -> None:
    """A program, or its exit functions, may close a pool just before what uses it."""
    closed = threading.Event()

    def body(self: Plain) -> None:
        if self.turns == 1:
            closed.set()
            raise StoreClosed("the pool is closed")

    one = runner(body).start()
    assert closed.wait(5)
    assert one.stop(5)
    assert one.health().reason == "it was stopped"
    assert one.last_error is None
    assert not caplog.records


def test_a_closed_store_ends_it_with_one_line_when_nobody_had_asked(
    runner: Callable[..., Plain], caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, section 11: a runner never dies silently."""
    closed = StoreClosed("the pool of the store is closed")
    both = threading.Barrier(2)

    def body(self: Plain) -> None:
        if not self._token.cancelled:
            both.wait(5)
            raise closed

    one = runner(body)
    one._spawn("second body", one._run)
    one.start()
    assert one.join(5)
    assert one.state == "stopped"
    assert one.last_error is closed
    reason = "it ended by itself: the pool of the store is closed"
    for _ in range(2):
        health = one.health()
        assert not health.healthy
        assert health.reason == reason
        assert health.details["failures"] == 1
        assert one.stop(5)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the pool of the store is closed" in caplog.text
    assert len(caplog.text.splitlines()) == 1
    assert "trying again" not in caplog.text


def test_stop_before_start_means_that_it_never_starts(runner: Callable[..., Plain]) -> None:
    one = runner(Plain.idle)
    assert one.stop()
    one.start()
    assert one.state == "stopped"
    assert one.turns == 0


def test_start_and_stop_may_be_repeated(runner: Callable[..., Plain]) -> None:
    """Field case B82."""
    one = runner(Plain.idle)
    assert one.start() is one.start()
    wait_until(lambda: one.state == "working")
    assert one.turns == 1
    assert one.stop(1)
    assert one.stop(1)
    assert one.join()
    assert one.state == "stopped"
    assert one.health().reason == "it was stopped"


def test_a_hundred_starts_and_stops_leave_no_thread(runner: Callable[..., Plain]) -> None:
    """Field case B82."""
    for _ in range(100):
        assert runner(Plain.idle).start().stop(5)
    assert our_threads() == []


def test_stop_from_a_thread_of_its_own_asks_and_returns_at_once(
    runner: Callable[..., Plain],
) -> None:
    answers: list[bool] = []

    def body(self: Plain) -> None:
        if not answers:
            answers.extend((self.stop(30), self.join(30)))

    one = runner(body).start()
    assert one.join(5)
    assert answers == [False, False]
    assert one.stop()


def test_stop_returns_a_second_after_the_time_limit_at_the_latest(
    runner: Callable[..., Plain],
) -> None:
    """Field case B88."""
    release = threading.Event()
    one = runner(lambda _self: release.wait() and None).start()
    with Stopwatch() as watch:
        assert not one.stop(0.2)
    assert watch.seconds < 1.5
    release.set()
    assert one.join(5)


def test_what_fails_when_nobody_waits_any_more_is_kept_and_not_logged(
    runner: Callable[..., Plain], caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, section 11: nothing is tried again for which that would have to be told."""
    release = threading.Event()
    error = ConnectionError("cut")

    def body(self: Plain) -> None:
        if self.turns == 1:
            release.wait()
            raise error

    one = runner(body).start()
    assert not one.stop(0)
    release.set()
    assert one.join(5)
    assert one.last_error is error
    assert not caplog.records


def test_stop_refuses_what_is_no_duration(runner: Callable[..., Plain]) -> None:
    with pytest.raises(InvalidOption):
        runner(Plain.idle).stop(-1)


def test_a_forked_child_says_that_the_runner_stayed_with_its_parent(
    runner: Callable[..., Plain],
) -> None:
    """Field case B27."""
    one = runner(Plain.idle).start()
    wait_until(lambda: one.state == "working")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def child(pipe: Connection) -> None:
        # Some thread of the parent might have held the lock, or been starting another one.
        one._threads._starting[threading.Thread()] = threading.get_ident() + 1
        with one._lock:
            began = time.monotonic()
            health = one.health()
            answers = one.stop(), one.join(), one.state, health.state
            pipe.send((answers, health.reason, time.monotonic() - began))

    process = context.Process(target=child, args=(there,))
    process.start()
    answers, reason, took = here.recv()
    process.join()
    assert answers == (True, True, "stopped", "stopped")
    assert f"process {os.getpid()}" in reason
    assert took < 1
    assert one.state == "working"


def test_a_thread_that_cannot_be_started_is_told_to_the_caller(
    runner: Callable[..., Plain], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = runner(Plain.idle)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            one.start()
    assert one.state == "stopped"


def test_what_an_ending_interpreter_refuses_is_no_failure(
    runner: Callable[..., Plain], caplog: pytest.LogCaptureFixture
) -> None:
    def body(_: Plain) -> None:
        raise LookupError from RuntimeError("can't create new thread at interpreter shutdown")

    ending = runner(body).start()
    wait_until(lambda: ending.state == "stopped")
    assert ending.last_error is None
    assert not caplog.records
