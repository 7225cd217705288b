"""Sections 2 and 3 of the contract: any text within the limits is stored as it is."""

from __future__ import annotations

import unicodedata
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from alkstore._typing import override
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore

on_a_server = settings(
    max_examples=60,
    deadline=None,
    # One store serves all examples of a test: each leaves the table as it was.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def fits(name: str) -> bool:
    """Return whether a name is within the limits."""
    size = len(name.encode())
    return 1 <= size <= 200 and not name.startswith("__alkstore_")


names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200).filter(
    fits
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=20,
)

NASTY_NAMES = [
    " ",
    "mail'; DROP TABLE jobs; --",
    '"; DROP SCHEMA alkstore CASCADE; --',
    "%s %(queue)s %% %",
    "{} {0} {schema} {{",
    "$1 $queue$",
    "\\ \\' \\x00 E'\\n'",
    "a/b;c|d&e",
    "NULL",
    "ümläut",
    "A b",
    "🐘🔒" * 25,
    "漢" * 66 + "ab",
    "n" * 63,
    "n" * 64,
    "n" * 200,
    "\u202eright to left",
    "\u2028line separator",
    "\ufeffmark",
    "e\u0301",
    "\u00e9",
]


def exercise(store: PostgresStore, name: str, worker: str) -> None:
    """Lead a job with these names through its whole life."""
    queue = store.queue(name)
    assert queue.name == name
    job_id = queue.enqueue(name)
    (handle,) = queue.claim(worker)
    assert (handle.id, handle.queue, handle.payload) == (job_id, name, name)
    job = store.get_job(job_id)
    assert job is not None
    assert (job.queue, job.worker_id) == (name, worker)
    assert queue.size() == queue.stats().running == 1
    assert handle.retry(worker, delay=0)
    (handle,) = queue.claim_wait(worker, timeout=0)
    assert handle.fail(name)
    (letter,) = queue.dead()
    assert (letter.queue, letter.error) == (name, name)
    assert queue.requeue([job_id]) == 1
    assert queue.cancel(job_id)


@pytest.mark.parametrize("name", NASTY_NAMES, ids=ascii)
def test_a_nasty_name_is_only_a_name(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str, name: str
) -> None:
    """Field case B131: stored as data; a decoy beside the tables survives."""
    decoy = sql.Identifier(schema, "decoy")
    connection.execute(sql.SQL("CREATE TABLE {} AS SELECT 1 AS n").format(decoy))
    exercise(store, name, name)
    with store.transaction() as tx:
        job_id = store.enqueue_tx(tx, name, 1)
    assert store.queue(name).claim(name)[0].id == job_id
    assert connection.execute(sql.SQL("SELECT n FROM {}").format(decoy)).fetchall() == [(1,)]


@on_a_server
@given(names, names)
def test_any_name_leads_a_whole_life(store: PostgresStore, name: str, worker: str) -> None:
    exercise(store, name, worker)


@on_a_server
@given(names, names)
def test_two_names_never_meet(store: PostgresStore, one: str, other: str) -> None:
    """Field case B75: not even when they look alike or share their first 63 bytes."""
    if one == other:
        other = unicodedata.normalize("NFD", one)[:60] + "x"
    queue, beside = store.queue(one), store.queue(other)
    job_id = queue.enqueue(1)
    assert beside.claim("w") == []
    assert not beside.cancel(job_id)
    assert beside.size() == 0
    assert queue.cancel(job_id)


@on_a_server
@example("\0")
@example({"\0": ["\0", {"a\0b": "\0"}]})
@example(2**63 + 1)
@example(10**400)
@example(1e308)
@example(-0.0)
@example({"b": 1, "a": 2})
@example("%s %(x)s {} \\ ' \"")
@example("\u2028\u2029🐘")
@given(json_values)
def test_any_payload_comes_back_as_it_was(store: PostgresStore, payload: Any) -> None:
    """Field cases B92 and B93: NUL, huge integers and the order of keys survive."""
    queue = store.queue("mail")
    job_id, other = queue.enqueue(payload), *queue.enqueue_many([payload])
    one, many = queue.claim("w", 2)
    job = store.get_job(job_id)
    assert job is not None
    assert (one.id, many.id) == (job_id, other)
    for read in (one.payload, many.payload, job.payload):
        assert repr(read) == repr(payload)
    assert one.raw == many.raw == job.raw
    assert one.fail("x")
    (letter,) = queue.dead()
    assert repr(letter.payload) == repr(payload)
    assert queue.ack_many([many]) == queue.purge() == 1


class UntellableError(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


def store_error(queue: Queue, error: object, *, by_retry: bool) -> str:
    """Let a job die of *error*; return the text that was stored."""
    queue.enqueue(1, max_attempts=1)
    (handle,) = queue.claim("w")
    assert handle.retry(error) if by_retry else handle.fail(error)
    (letter,) = queue.dead()
    assert queue.purge([letter.id]) == 1
    return letter.error


@on_a_server
@example(text="nul \0 nul", by_retry=True)
@example(text="\ud800 broken \udfff", by_retry=False)
@example(text="", by_retry=True)
@example(text="%s %(x)s {} \\", by_retry=False)
@given(text=st.text(st.characters(codec=None)), by_retry=st.booleans())
def test_any_error_text_can_be_stored(store: PostgresStore, text: str, *, by_retry: bool) -> None:
    """Field case B92: recording a failure never fails."""
    stored = store_error(store.queue("mail"), ValueError(text), by_retry=by_retry)
    assert "\0" not in stored
    if text and text.isprintable():
        assert stored == text


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (UntellableError(), "UntellableError"),
        (KeyError(), "KeyError"),
        (None, "None"),
        (ValueError("x\0y\ud800"), "x\\x00y\\ud800"),
        (ValueError("🐘" * 30_000), "🐘" * 19_997 + "..."),
    ],
    ids=["untellable", "no text", "none", "broken", "long"],
)
def test_a_strange_error_is_stored_as_far_as_it_goes(
    queue: Queue, error: object, stored: str
) -> None:
    assert store_error(queue, error, by_retry=False) == stored
    assert store_error(queue, error, by_retry=True) == stored
