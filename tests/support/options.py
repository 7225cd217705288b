"""Who resolves which options, and what to try on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st

from alkstore import InvalidOption
from alkstore.arguments import MAX_SECONDS
from alkstore.options import (
    QUEUE_DEFAULTS,
    Enqueue,
    resolve_enqueue,
    resolve_queue,
    resolve_schedule,
)

SHORTEST = 0.001
LONGEST = timedelta(days=36_500)


def enqueue(options: Mapping[str, Any]) -> Enqueue:
    return resolve_enqueue(options, QUEUE_DEFAULTS)


Resolver = Callable[[Mapping[str, Any]], object]
RESOLVERS: dict[Resolver, set[str]] = {
    enqueue: {"delay", "run_at", "priority", "expires", "max_attempts"},
    resolve_queue: {"visibility_timeout", "max_attempts", "base_backoff"},
    resolve_schedule: {"priority", "expires", "max_attempts", "starts_at", "catch_up"},
}

LEGAL_DURATIONS = st.one_of(
    st.floats(SHORTEST, MAX_SECONDS),
    st.integers(1, int(MAX_SECONDS)),
    st.timedeltas(timedelta(milliseconds=1), LONGEST),
)
FOREIGN = st.one_of(
    st.text(),
    st.binary(),
    st.booleans(),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.lists(st.integers()),
    st.builds(object),
)


def in_seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def refusal(resolve: Resolver, options: Mapping[str, Any]) -> str:
    with pytest.raises(InvalidOption) as refused:
        resolve(options)
    message = str(refused.value)
    assert len(message) < 400
    assert message.isascii()
    return message
