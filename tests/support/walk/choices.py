"""What the random walk chooses from."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from alkstore.stop_token import StopToken
from tests.support.two_engines import STORES

QUEUES = ["mails", "été 😀;b'\"%s"]
OUTBOXES = ["events"]
SCHEDULES = ["a", "a!", 'a"b', "a\\", "é"]
LOCKS = ["l", "mails"]

numbers = st.integers(0, STORES - 1)
picks = st.one_of(st.integers(0, 2), st.integers(0, 40))
queue_names = st.sampled_from([QUEUES[0], *QUEUES])
schedule_names = st.sampled_from(SCHEDULES)
workers = st.sampled_from(["w1", "w2"])
payloads: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, "naïve\x00", {"a": [1, 2.5, {}]}, [], "x" * 300]
)
lengths = st.one_of(
    st.sampled_from([0.001, 0.5, 1, 2.5, 10, 59.999999, 60, 300, 3600, timedelta(days=1)]),
    st.floats(0.001, 100_000),
)
delays = st.one_of(st.just(0), st.just(1e-7), lengths)
offsets = st.one_of(st.sampled_from([-3600, -1e-6, 0, 1e-6, 1, 5]), st.floats(-1e5, 1e5))
attempts = st.integers(1, 4)
settlings = st.sampled_from(["fail", "retry", "release", "heartbeat", "ack"])
errors = st.sampled_from(["boom", "", "nul\x00 \ud800", "y" * 30_000])

raised = st.sampled_from([ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])


def stopped() -> StopToken:
    """Return a stop token that is set already."""
    token = StopToken()
    token.cancel()
    return token


def some(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the options, seldom all of them."""
    return st.fixed_dictionaries({}, optional=strategies)


enqueue_options = st.one_of(
    st.just({}),
    some(priority=st.integers(-2, 2), max_attempts=attempts),
    some(delay=st.sampled_from([0, 1e-7, 0.5, 10, 60]), expires=st.sampled_from([61, 300, 3600])),
    some(delay=lengths, priority=st.sampled_from([-32_768, 32_767])),
    some(run_at=offsets, priority=st.integers(-2, 2), expires=lengths),
    some(expires=lengths, max_attempts=attempts),
    some(delay=delays, max_attempts=attempts),
)
queue_options = st.one_of(
    st.just({}),
    some(
        visibility_timeout=st.sampled_from([0.5, 5, 60]),
        max_attempts=attempts,
        base_backoff=lengths,
    ),
)
schedule_options = st.one_of(
    st.just({}),
    some(catch_up=st.sampled_from(["all", "latest"]), starts_at=offsets),
    some(priority=st.integers(-2, 2), expires=lengths, max_attempts=attempts),
    some(catch_up=st.sampled_from(["all", "latest"]), priority=st.integers(-2, 2)),
    some(catch_up=st.just("latest"), expires=lengths, max_attempts=attempts),
    some(starts_at=offsets, expires=lengths, priority=st.integers(-2, 2)),
    st.fixed_dictionaries(
        {
            "catch_up": st.sampled_from(["all", "latest"]),
            "starts_at": offsets,
            "priority": st.sampled_from([-32_768, 0, 32_767]),
            "expires": lengths,
            "max_attempts": attempts,
        }
    ),
)
specs = st.sampled_from(
    [
        *("@every 1s", "@every 5s", "@every 60s", "@every 1m", " @every\t060s\r\n", "@every 7m"),
        *("@every 1h", "@every 1d", "@every 36500d"),
    ]
)
spans = st.one_of(
    st.sampled_from([1, 5, 10, 60, 64, 65, 300, 3600, 0.000001, 0.5]),
    st.floats(0, 1_000).map(lambda number: round(number, 6)),
    st.sampled_from([86_400, 700_000, 40 * 86_400]),
)
