"""A member of ``class Names(str, Enum)`` given as a name is stored as its value.

``str()`` of such a member is ``Names.QUEUE``; an application that keeps its names in an enum
would otherwise write to one queue and read from another.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import psycopg
import pytest
from psycopg import sql

import alkstore
import alkstore_postgres
from alkstore_postgres import PostgresStore


class Names(str, Enum):
    QUEUE = "mail"
    OUTBOX = "events"
    LOCK = "the lock"
    OWNER = "me"
    SCHEDULE = "hourly"
    SPEC = "@every 1h"
    CATCH_UP = "latest"
    CHANNEL = "news"
    WORKER = "worker 1"
    ERROR = "no luck"


def test_a_queue_and_its_worker(store: PostgresStore) -> None:
    queue = store.queue(Names.QUEUE)
    job_id = queue.enqueue(1)
    (handle,) = queue.claim(Names.WORKER)
    assert {type(one) for one in (queue.name, handle.queue)} == {str}
    assert queue.name == handle.queue == "mail"
    job = store.get_job(job_id)
    assert job is not None
    assert (job.queue, job.worker_id) == ("mail", "worker 1")
    assert handle.fail(Names.ERROR)
    assert queue.dead()[0].error == "no luck"
    assert store.queue("mail").requeue([job_id]) == 1
    runner = store.start_worker(Names.QUEUE, lambda _: None)
    assert runner.name == "worker mail"
    assert runner.stop(5)


def test_an_outbox(store: PostgresStore) -> None:
    outbox = store.outbox(Names.OUTBOX)
    assert (type(outbox.name), outbox.name) == (str, "events")
    with store.transaction() as tx:
        ids = [outbox.enqueue(1), store.outbox_enqueue_tx(tx, Names.OUTBOX, 1)]
    jobs = [store.get_job(one) for one in ids]
    assert [job and job.queue for job in jobs] == ["__alkstore_outbox:events"] * 2
    assert outbox.run_once(Names.WORKER, lambda _: None)
    runner = store.start_outbox(Names.OUTBOX, lambda _: None)
    assert runner.name == "outbox events"
    assert runner.stop(5)


def test_the_seam(store: PostgresStore) -> None:
    with store.listen("news") as listener:
        with store.transaction() as tx:
            job_id = store.enqueue_tx(tx, Names.QUEUE, 1)
            store.notify_tx(tx, Names.CHANNEL)
        assert listener.wait(10) == alkstore.Wake("news")
    job = store.get_job(job_id)
    assert job is not None
    assert job.queue == "mail"


def test_a_channel(store: PostgresStore) -> None:
    with store.listen(Names.CHANNEL) as listener:
        store.notify(Names.CHANNEL)
        wake = listener.wait(10)
        assert wake == alkstore.Wake("news")
        assert type(wake.channel) is str
        store.notify("news")
        assert listener.wait(10) == wake


@pytest.mark.parametrize("take", ["try_lock", "lock"])
def test_a_lock_and_its_owner(store: PostgresStore, take: str) -> None:
    handle = getattr(store, take)(Names.LOCK, ttl=30, owner=Names.OWNER)
    assert (handle.name, handle.owner) == ("the lock", "me")
    assert {type(handle.name), type(handle.owner)} == {str}
    assert store.try_lock("the lock", ttl=30) is None
    assert handle.release()


def test_a_schedule(store: PostgresStore) -> None:
    options: dict[str, Any] = {"catch_up": Names.CATCH_UP}
    made = store.schedule(Names.SCHEDULE, Names.SPEC, Names.QUEUE, 1, **options)
    found = store.get_schedule("hourly")
    assert made == found
    assert found is not None
    assert (found.name, found.spec, found.queue) == ("hourly", "@every 1h", "mail")
    assert found.catch_up == "latest"
    job = store.get_job(store.run_now(Names.SCHEDULE))
    assert job is not None
    assert (job.queue, job.schedule) == ("mail", "hourly")
    calls: list[Callable[[str], object]] = [store.pause, store.resume, store.unschedule]
    assert [call(Names.SCHEDULE) for call in calls] == [True, True, True]
    assert store.get_schedule(Names.SCHEDULE) is None


def test_a_schema_and_a_connection_string(
    conninfo: str, schema: str, connection: psycopg.Connection[Any]
) -> None:
    settings = Enum("Settings", {"SCHEMA": schema, "WHERE": conninfo}, type=str)  # type: ignore[misc]
    where: Any = settings["WHERE"]
    place: Any = settings["SCHEMA"]
    alkstore_postgres.migrate(where, place)
    with alkstore_postgres.open(where, place) as store:
        store.queue("mail").enqueue(1)
    count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "jobs"))
    assert connection.execute(count).fetchone() == (1,)
