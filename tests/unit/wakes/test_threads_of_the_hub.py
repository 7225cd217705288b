"""What the hub does when no thread can be started: polling goes on, and it says so."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from alkstore_postgres.wakes.hub import WakeHub


def connect() -> psycopg.Connection:
    raise AssertionError("there is no thread that could connect")


@pytest.fixture
def hub() -> Iterator[WakeHub]:
    """A hub that can listen nowhere."""
    hub = WakeHub(connect, "alkstore")
    yield hub
    hub.close()


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        ("can't start new thread", ["the listening thread could not be started; polling goes on"]),
        ("can't create new thread at interpreter shutdown", []),
    ],
)
def test_it_warns_unless_the_interpreter_is_ending(
    hub: WakeHub,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reason: str,
    lines: list[str],
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError(reason)

    with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(threading.Thread, "start", refuse)
        hub.attach("mail", lambda _: None)
        assert not hub.settle(0.0)
    assert caplog.messages == lines
    assert hub.state == "idle"


def test_so_it_is_when_there_are_no_more_descriptors_and_it_says_so_once(
    hub: WakeHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", full)
        for _ in range(10):
            hub.attach("mail", lambda _: None)
        assert not hub.settle(0.0)
    assert caplog.messages == ["the listening thread could not be started; polling goes on"]
    assert hub.state == "idle"


@pytest.mark.parametrize("failure", [MemoryError(), KeyboardInterrupt()])
def test_whoever_could_not_attach_is_not_attached(
    hub: WakeHub, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_: threading.Thread) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for shared in (False, True):
            with pytest.raises(type(failure)):
                hub.attach("mail", lambda _: None, shared=shared)
    assert not hub.waiters._sinks
    assert not hub.waiters._shared


def test_connections_that_never_last_are_made_at_the_longest_pause_for_ever() -> None:
    hub = WakeHub(connect, "alkstore")
    pauses = []
    for _ in range(1_100):
        hub._ready_at = time.monotonic()
        hub._judge_line()
        pauses.append(hub._backoff)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 5.0)
