"""What is no stop token, no list and no pool is told as such, at every entry point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from alkstore import InvalidConnection, InvalidOption, StopToken
from alkstore_postgres import PostgresStore

Call = Callable[[PostgresStore], object]

NO_STOP: dict[str, Call] = {
    "run_schedules": lambda store: store.run_schedules(cast("StopToken", None)),
    "claim_wait": lambda store: store.queue("q").claim_wait("w", stop=cast("StopToken", 5)),
    "jobs": lambda store: store.queue("q").jobs("w", stop=cast("StopToken", 5)),
    "lock": lambda store: store.lock("l", 5, stop=cast("StopToken", 5)),
    "listen": lambda store: store.listen("c").wait(0, stop=cast("StopToken", 5)),
    "outbox": lambda store: store.outbox("o").run("w", print, cast("StopToken", 5)),
}
NO_LIST: dict[str, Call] = {
    "enqueue_many": lambda store: store.queue("q").enqueue_many(cast("Any", None)),
    "ack_many": lambda store: store.queue("q").ack_many(cast("Any", 5)),
    "heartbeat_many": lambda store: store.queue("q").heartbeat_many(cast("Any", 5)),
    "requeue": lambda store: store.queue("q").requeue(cast("Any", 5)),
    "purge": lambda store: store.queue("q").purge(cast("Any", 5)),
}


@pytest.mark.parametrize("call", NO_STOP.values(), ids=NO_STOP)
def test_what_is_no_stop_token_is_refused(store: PostgresStore, call: Call) -> None:
    with pytest.raises(InvalidOption, match="stop must be a StopToken"):
        call(store)


@pytest.mark.parametrize("call", NO_LIST.values(), ids=NO_LIST)
def test_what_cannot_be_iterated_over_is_refused(store: PostgresStore, call: Call) -> None:
    with pytest.raises(InvalidOption, match="must be iterable"):
        call(store)


def test_no_pool_and_no_transaction_are_argument_errors_of_the_tree(store: PostgresStore) -> None:
    with pytest.raises(InvalidConnection, match="ConnectionPool"):
        PostgresStore(cast("Any", 5))
    with pytest.raises(InvalidConnection, match="tx must be"):
        store.enqueue_tx(None, "q", 1)
