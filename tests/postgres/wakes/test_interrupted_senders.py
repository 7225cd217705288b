"""What interrupts the start of the sender's thread costs the wakes of that moment alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from alkstore_postgres import PostgresStore
from alkstore_postgres.wakes.sender import WakeSender
from tests.support.waiting import wait_until


@pytest.fixture
def sender(store: PostgresStore) -> Iterator[WakeSender]:
    sender = WakeSender(store._parts.database, store._parts.database.schema)
    yield sender
    sender.close()


@pytest.fixture
def heard(store: PostgresStore) -> Iterator[list[str]]:
    """What was heard of the names that the tests use."""
    names: list[str] = []
    with store.listen("mail", "news") as listener:

        def listen() -> None:
            names.extend(wake.channel for wake in listener)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            store.notify("mail")
            wait_until(lambda: "mail" in names)
            names.clear()
            yield names
        finally:
            listener.close()
            thread.join()


@pytest.mark.parametrize("begins", [False, True])
def test_after_an_interrupted_start_the_next_wake_is_sent(
    sender: WakeSender, heard: list[str], monkeypatch: pytest.MonkeyPatch, *, begins: bool
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begins:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sender.merged("mail")
    before = len(heard)
    sender.merged("mail")
    wait_until(lambda: len(heard) > before)
    wait_until(lambda: names_of_threads().count("alkstore-wakes") == 1)


def test_a_signal_handler_that_enqueues_amid_the_start_starts_no_other_thread(
    sender: WakeSender, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        sender.merged("news")  # as the handler of a signal that came just now
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    sender.merged("mail")
    wait_until(lambda: {"mail", "news"} <= set(heard))
    assert names_of_threads().count("alkstore-wakes") == 1


def test_what_somebody_notes_in_forgotten_books_hides_no_others(
    sender: WakeSender, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many names those that are quiet are forgotten, perhaps while somebody notes something."""
    with monkeypatch.context() as patch:
        patch.setattr(sender, "_ensure_thread", lambda: None)
        sender.merged("mail")
        forgotten = sender._books.pop("mail")
        sender.merged("mail")
        assert sender._owed["mail"] is sender._books["mail"] is not forgotten
    sender.merged("news")
    wait_until(lambda: {"mail", "news"} <= set(heard))


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
