"""The processes of the demonstration shop: what an application itself would write.

Each role is a process of its own: it opens a store at boot, does its part until SIGTERM,
and says what happens on its standard output. `shop.py` starts them.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any

import psycopg

import alkstore_postgres
from alkstore import JobHandle, Runner, Schedule, StopToken
from alkstore_postgres import PostgresStore

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, item text);
CREATE TABLE IF NOT EXISTS invoices (order_id bigint, attempt integer);
CREATE TABLE IF NOT EXISTS mails (message_id bigint, order_id bigint, attempt integer);
CREATE TABLE IF NOT EXISTS fires (schedule text, boundary timestamptz, job_id bigint);
"""

ITEMS = ("a teapot", "a lamp", "a bicycle bell", "a map of the moon")

BUSY_AT = (10, 25, 40)
"""Orders at whose first mail the mail server is busy."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def register(store: PostgresStore) -> Schedule:
    """Register the shop's schedule; every process does so at boot.

    Registering again keeps the next boundary: a restart pushes nothing away.
    """
    return store.schedule("till report", "@every 1s", "reports", {"kind": "till"})


def web(store: PostgresStore, url: str, stop: StopToken) -> None:
    """A web process: takes orders, and has a scheduler thread like its siblings."""
    register(store)
    scheduler = store.start_scheduler()
    threading.Thread(target=_tell_states, args=(scheduler, stop), daemon=True).start()
    number = 0
    with psycopg.connect(url) as connection:
        while not stop.wait(0.15):
            number += 1
            # One transaction for the order, the invoice job and the mail: all or none.
            with connection.transaction() as transaction:
                order_id = _insert_order(connection, ITEMS[number % len(ITEMS)])
                store.enqueue_tx(connection, "invoices", {"order": order_id})
                store.outbox_enqueue_tx(connection, "mails", {"order": order_id})
                if number % 10 == 0:
                    say(f"order {order_id} is rolled back, its job and its mail with it")
                    raise psycopg.Rollback(transaction)


def _insert_order(connection: psycopg.Connection[Any], item: str) -> int:
    row = connection.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", [item]
    ).fetchone()
    assert row is not None
    return int(row[0])


def _tell_states(scheduler: Runner, stop: StopToken) -> None:
    told = None
    while not stop.wait(0.02):
        state = scheduler.state
        if state != told:
            told = state
            say(f"scheduler is {state}")


def worker(store: PostgresStore, url: str, stop: StopToken) -> None:
    """A worker process: writes invoices and till reports."""
    local = threading.local()

    def connection() -> psycopg.Connection[Any]:
        if not hasattr(local, "connection"):
            local.connection = psycopg.connect(url, autocommit=True)
        lent: psycopg.Connection[Any] = local.connection
        return lent

    def invoice(handle: JobHandle) -> None:
        order = handle.payload["order"]
        connection().execute("INSERT INTO invoices VALUES (%s, %s)", [order, handle.attempt])

    def report(handle: JobHandle) -> None:
        connection().execute(
            "INSERT INTO fires VALUES (%s, %s, %s)",
            [handle.schedule, handle.scheduled_for, handle.id],
        )
        say(f"till report for {handle.scheduled_for:%H:%M:%S}")

    store.start_worker("invoices", invoice, concurrency=2)
    store.start_worker("reports", report)
    stop.wait()


def relay(store: PostgresStore, url: str, stop: StopToken) -> None:
    """A relay process: hands the mails of the outbox to the mail server."""
    with psycopg.connect(url, autocommit=True) as connection:

        def deliver(handle: JobHandle) -> None:
            order = handle.payload["order"]
            if order in BUSY_AT and handle.attempt == 1:
                say(f"mail for order {order}: the mail server is busy, it will be retried")
                msg = "mail server busy"
                raise ConnectionError(msg)
            connection.execute(
                "INSERT INTO mails VALUES (%s, %s, %s)", [handle.id, order, handle.attempt]
            )
            if handle.attempt > 1:
                say(f"mail for order {order}: delivered at attempt {handle.attempt}")

        store.start_outbox("mails", deliver)
        stop.wait()


ROLES = {"web": web, "worker": worker, "relay": relay}


def main() -> None:
    """Run the role that the command line names until SIGTERM."""
    logging.basicConfig(level=logging.ERROR)  # what goes wrong on purpose is said here
    stop = StopToken()
    url = os.environ["SHOP_DATABASE_URL"]
    with stop.on_signals(), alkstore_postgres.open(url) as store:
        ROLES[sys.argv[1]](store, url, stop)


if __name__ == "__main__":
    main()
