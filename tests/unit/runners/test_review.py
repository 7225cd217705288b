"""A question to the database whose asker never waits long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from alkstore.errors import DatabaseError
from alkstore.runners import review
from alkstore.runners.review import NoAnswer, Review
from tests.support.waiting import wait_until


class Silent:
    """A database in which every question hangs until the test lets it fail."""

    def __init__(self) -> None:
        self.asked = 0
        self._fails = threading.Semaphore(0)

    def ask(self) -> dict[str, Any]:
        """Wait, and fail."""
        self.asked += 1
        assert self._fails.acquire(timeout=30)
        raise DatabaseError("canceling statement due to statement timeout", retryable=True)

    def let_fail(self, questions: int = 1) -> None:
        """Let so many questions fail."""
        self._fails.release(questions)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """Return a database that is silent, and askers that wait for a moment only."""
    monkeypatch.setattr(review, "PATIENCE", 0.1)
    silent = Silent()
    yield silent
    silent.let_fail(10)


def test_it_tells_for_how_long_there_was_no_answer_at_all(silent: Silent) -> None:
    """Each question is given up after some seconds; the next one starts no new count."""
    one = Review(silent.ask, "review")
    with pytest.raises(NoAnswer, match=r"has not answered for \d s"):
        one.answer()
    assert one._missing_since is not None
    one._missing_since -= 40.0  # so long ago
    silent.let_fail()
    wait_until(lambda: one._asked is not None and one._asked.answered.is_set())
    with pytest.raises(NoAnswer, match=r"has not answered for 4\d s") as caught:
        one.answer()
    assert silent.asked == 2
    assert caught.value.lasts >= 40.0


def test_a_question_whose_thread_was_interrupted_is_put_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    one = Review(lambda: {"found": 1}, "review")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.answer()
    assert one.answer() == {"found": 1}
