"""What the hub says when no thread can be started."""

from __future__ import annotations

import logging
import threading

import psycopg
import pytest

from alkstore_postgres.wakes.hub import WakeHub


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        ("can't start new thread", ["the listening thread could not be started; polling goes on"]),
        ("can't create new thread at interpreter shutdown", []),
    ],
)
def test_it_warns_unless_the_interpreter_is_ending(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reason: str,
    lines: list[str],
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError(reason)

    def connect() -> psycopg.Connection:
        raise AssertionError("there is no thread that could connect")

    hub = WakeHub(connect, "alkstore")
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(threading.Thread, "start", refuse)
        hub.attach("mail", lambda _: None)
        assert not hub.settle(0.0)
    assert caplog.messages == lines
    assert hub.state == "idle"
    hub.close()
