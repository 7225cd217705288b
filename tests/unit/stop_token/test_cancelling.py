"""Stop tokens (contract section 10): cancelled from anywhere, heard within 100 ms."""

from __future__ import annotations

import math
import threading
import time

import pytest

from alkstore import InvalidOption, StopToken
from tests.support.stop_tokens import PROMPT, Waker, start, until, waiters


def test_a_token_starts_uncancelled() -> None:
    assert not StopToken().cancelled
    assert not StopToken().child().cancelled


def test_a_cancelled_token_stays_cancelled() -> None:
    token = StopToken()
    token.cancel()
    token.cancel()
    assert token.cancelled
    assert token.wait()
    assert token.wait(0)


def test_cancelling_is_a_no_op_the_second_time() -> None:
    token, waker = StopToken(), Waker()
    token.attach(waker)
    token.cancel()
    assert waker.wakes == 1
    token.detach(waker)
    token.cancel()
    assert waker.wakes == 1


def slowest_of_eight_waits(timeout: float | None) -> float:
    """Return how long after a cancellation the last of eight threads came back."""
    token = StopToken()
    returned: list[tuple[bool, float]] = []
    threads = [
        start(lambda: returned.append((token.wait(timeout), time.monotonic()))) for _ in range(8)
    ]
    until(lambda: waiters(token) == 8)
    cancelled_at = time.monotonic()
    start(token.cancel).join(5)
    for thread in threads:
        thread.join(5)
    assert [result for result, _ in returned] == [True] * 8
    assert waiters(token) == 0
    return max(at for _, at in returned) - cancelled_at


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_wait_in_any_thread_returns_within_100_ms_of_the_cancellation(
    timeout: float | None,
) -> None:
    # The best of three: a busy machine may hold a thread back, and that is not the token's.
    assert min(slowest_of_eight_waits(timeout) for _ in range(3)) < PROMPT


def test_a_wait_that_is_not_cancelled_ends_on_time() -> None:
    token = StopToken()
    started = time.monotonic()
    assert token.wait(0.05) is False
    assert 0.05 <= time.monotonic() - started < 1
    assert token.wait(0) is False
    assert waiters(token) == 0


@pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, True, "1"])
def test_a_time_limit_is_a_duration(timeout: float) -> None:
    token = StopToken()
    with pytest.raises(InvalidOption):
        token.wait(timeout)
    assert waiters(token) == 0


def test_many_threads_that_wait_and_cancel_at_once_all_come_back() -> None:
    for _ in range(200):
        token = StopToken()
        gate = threading.Barrier(6)

        def wait(token: StopToken = token, gate: threading.Barrier = gate) -> None:
            gate.wait(5)
            assert token.child().wait(30)

        def cancel(token: StopToken = token, gate: threading.Barrier = gate) -> None:
            gate.wait(5)
            token.cancel()

        threads = [start(wait) for _ in range(4)] + [start(cancel) for _ in range(2)]
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()
        assert waiters(token) == 0
