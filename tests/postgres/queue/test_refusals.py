"""Sections 2 to 4 of the contract: what can be refused is refused before any round trip."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NoReturn

import pytest
from psycopg import sql

import alkstore_postgres
from alkstore import (
    AlkstoreError,
    EncodeError,
    InvalidName,
    InvalidOption,
    PayloadTooLarge,
    ReservedName,
)
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.database import Database
from alkstore_postgres.wakes.hub import WakeHub


@pytest.fixture(scope="module")
def sealed(conninfo: str) -> Iterator[PostgresStore]:
    """Return a store that has lost its way to the database: nothing can be left there."""
    schema = f"t {secrets.token_hex(6)}"

    def no_round_trip(*_args: object) -> NoReturn:
        pytest.fail("there was a round trip")

    def connection(self: Database) -> AbstractContextManager[Any]:
        no_round_trip(self)

    with alkstore_postgres.open(conninfo, schema) as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "connection", connection)
            patch.setattr(WakeHub, "attach", no_round_trip)
            yield store
        with store.transaction() as tx:
            tx.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def each(name: str, values: list[Any]) -> pytest.MarkDecorator:
    """Try each of *values*; their ids are short, whatever they are."""
    ids = [f"{number}-{type(value).__name__}" for number, value in enumerate(values)]
    return pytest.mark.parametrize(name, values, ids=ids)


BAD_NAMES: list[Any] = [
    "",
    "a" * 201,
    "é" * 101,
    "漢" * 67,
    "🐘" * 51,
    "a" * 10_240,
    "nul\0",
    "line\nfeed",
    "tab\t",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\ud800",
    "a\udfffb",
    None,
    7,
    b"mail",
    ["mail"],
]
RESERVED_NAMES = ["__alkstore_", "__alkstore_outbox:events", "__alkstore_scheduler"]

names = each("name", BAD_NAMES)


@names
def test_a_bad_queue_name_is_refused(sealed: PostgresStore, name: Any) -> None:
    with pytest.raises(InvalidName):
        sealed.queue(name)


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_a_reserved_queue_name_is_refused(sealed: PostgresStore, name: str) -> None:
    with pytest.raises(ReservedName):
        sealed.queue(name)


@names
def test_a_bad_worker_id_is_refused(sealed: PostgresStore, name: Any) -> None:
    queue = sealed.queue("mail")
    for call in (queue.claim, queue.claim_wait, queue.jobs):
        with pytest.raises(InvalidName):
            call(name)


HUGE = 36_500 * 86_400 + 1
BAD_DURATIONS: list[Any] = [
    -1,
    -0.001,
    float("nan"),
    float("inf"),
    float("-inf"),
    HUGE,
    10**400,
    timedelta(days=36_501),
    timedelta(seconds=-1),
    "5",
    True,
    Decimal(5),
    object(),
    [],
]
BAD_INSTANTS: list[Any] = [
    datetime(2030, 1, 1),  # noqa: DTZ001 - a naive one is what has to be refused
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    1_893_456_000,
    "2030-01-01T00:00:00Z",
]
BAD_COUNTS: list[Any] = [0, -1, 2**31, 10**400, 1.0, "1", True, object()]
BAD_PRIORITIES: list[Any] = [-32_769, 32_768, 10**400, 1.0, "1", True, object()]

ENQUEUE_OPTIONS: list[dict[str, Any]] = [
    *({"delay": bad} for bad in BAD_DURATIONS),
    *({"expires": bad} for bad in [*BAD_DURATIONS, 0, 0.0009]),
    *({"run_at": bad} for bad in BAD_INSTANTS),
    *({"priority": bad} for bad in BAD_PRIORITIES),
    *({"max_attempts": bad} for bad in BAD_COUNTS),
    {"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=timezone.utc)},
    {"delay": 0, "run_at": datetime(2030, 1, 1, tzinfo=timezone.utc)},
    {"visibility_timeout": 5},
    {"Delay": 5},
    {"unknown": None},
]


@each("options", ENQUEUE_OPTIONS)
def test_an_impossible_option_of_an_enqueue_is_refused(
    sealed: PostgresStore, options: dict[str, Any]
) -> None:
    queue = sealed.queue("mail")
    with pytest.raises(InvalidOption):
        queue.enqueue(1, **options)
    with pytest.raises(InvalidOption):
        queue.enqueue_many([1, 2], **options)
    with pytest.raises(InvalidOption):
        queue.enqueue_many([], **options)
    with pytest.raises(InvalidOption):
        sealed.enqueue_tx(None, "mail", 1, **options)


QUEUE_OPTIONS: list[dict[str, Any]] = [
    *({"visibility_timeout": bad} for bad in [*BAD_DURATIONS, 0]),
    *({"base_backoff": bad} for bad in [*BAD_DURATIONS, 0]),
    *({"max_attempts": bad} for bad in BAD_COUNTS),
    {"priority": 5},
]


@each("options", QUEUE_OPTIONS)
def test_an_impossible_option_of_a_queue_is_refused(
    sealed: PostgresStore, options: dict[str, Any]
) -> None:
    """Field case B59: no base backoff breaks the curve later."""
    with pytest.raises(InvalidOption):
        sealed.queue("mail", **options)


BAD_PAYLOADS: list[Any] = [
    float("nan"),
    [1, float("inf")],
    {"a": {"b": float("-inf")}},
    "\ud800",
    {"\udfff": 1},
    {1: 2},
    {None: 1},
    Decimal("1.5"),
    b"bytes",
    datetime(2030, 1, 1, tzinfo=timezone.utc),
    {1, 2},
    object(),
    10**5_000,
]


@each("payload", BAD_PAYLOADS)
def test_a_payload_without_an_encoding_is_refused(sealed: PostgresStore, payload: Any) -> None:
    """Field cases B92 and B93."""
    queue = sealed.queue("mail")
    with pytest.raises(EncodeError):
        queue.enqueue(payload)
    with pytest.raises(EncodeError):
        queue.enqueue_many([1, payload])


def test_a_payload_nested_too_deeply_is_refused(sealed: PostgresStore) -> None:
    payload: Any = []
    for _ in range(2_000):
        payload = [payload]
    with pytest.raises(EncodeError):
        sealed.queue("mail").enqueue(payload)


def test_a_payload_over_the_limit_is_refused(sealed: PostgresStore) -> None:
    queue = sealed.queue("mail")
    with pytest.raises(PayloadTooLarge):
        queue.enqueue("a" * (1024 * 1024 - 1))
    with pytest.raises(PayloadTooLarge):
        queue.enqueue_many(["a", "a" * (1024 * 1024 - 1)])


BAD_IDS: list[Any] = [0, -1, 2**63, 10**400, 1.0, "1", None, True, object()]
ID_CALLS: dict[str, Callable[[PostgresStore, Any], Any]] = {
    "get_job": lambda store, bad: store.get_job(bad),
    "cancel": lambda store, bad: store.queue("mail").cancel(bad),
    "requeue": lambda store, bad: store.queue("mail").requeue([1, bad]),
    "purge": lambda store, bad: store.queue("mail").purge([1, bad]),
}


@pytest.mark.parametrize("call", ID_CALLS.values(), ids=ID_CALLS.keys())
@each("bad", BAD_IDS)
def test_what_cannot_be_a_job_id_is_refused(
    sealed: PostgresStore, call: Callable[[PostgresStore, Any], Any], bad: Any
) -> None:
    with pytest.raises(InvalidOption):
        call(sealed, bad)


@each("limit", [0, -1, 10_001, 1.0, "1", None, True])
def test_an_impossible_limit_is_refused(sealed: PostgresStore, limit: Any) -> None:
    queue = sealed.queue("mail")
    for call in (
        lambda: queue.claim("w", limit),
        lambda: queue.claim_wait("w", limit, timeout=0),
        lambda: queue.dead(limit),
    ):
        with pytest.raises(InvalidOption):
            call()


@each("bad", BAD_DURATIONS)
def test_an_impossible_time_limit_or_age_is_refused(sealed: PostgresStore, bad: Any) -> None:
    queue = sealed.queue("mail")
    with pytest.raises(InvalidOption):
        queue.claim_wait("w", timeout=bad)
    with pytest.raises(InvalidOption):
        queue.purge(older_than=bad)
    with pytest.raises(InvalidOption):
        queue.purge([1], older_than=bad)


@each("after", [1, "x", object()])
def test_a_page_begins_behind_a_dead_letter_only(sealed: PostgresStore, after: Any) -> None:
    with pytest.raises(InvalidOption):
        sealed.queue("mail").dead(10, after)


@pytest.mark.parametrize("error", [InvalidName, ReservedName, InvalidOption, EncodeError])
def test_argument_errors_are_value_errors_and_ours(error: type[Exception]) -> None:
    assert issubclass(error, AlkstoreError)
    assert issubclass(error, ValueError)


def test_calls_with_nothing_to_do_make_no_round_trip(sealed: PostgresStore) -> None:
    queue = sealed.queue("mail", visibility_timeout=5)
    assert queue.enqueue_many([]) == []
    assert queue.ack_many([]) == queue.heartbeat_many([]) == 0
    assert queue.requeue([]) == queue.purge([]) == 0
