"""A shop that runs alkstore's main job, end to end, on a real PostgreSQL server.

It starts a private server, two web processes (each takes orders and has a scheduler
thread, of which exactly one leads), a worker and a relay. Half way it kills the leading
process, without a warning, and the other one takes over. In the end it prints a ledger,
and its exit status is 0 only when the ledger is right.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

import alkstore_postgres
import shop_roles
from alkstore_postgres import PostgresStore, embedded

RUN_BEFORE_KILL = 3.0
RUN_AFTER_TAKEOVER = 1.5
TAKEOVER_LIMIT = 13.0
DRAIN_LIMIT = 7.0

DONE = "SELECT count(DISTINCT order_id) FROM {} JOIN orders ON id = order_id"

_started = time.monotonic()


def tell(who: str, text: str) -> None:
    """Print what happened, when, and in which process."""
    print(f"{time.monotonic() - _started:6.2f} s  {who:<9} {text}", flush=True)


class Process:
    """A process of the shop whose lines are passed on."""

    def __init__(self, name: str, role: str, url: str) -> None:
        self.name = name
        self.leading = threading.Event()
        self._child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("shop_roles.py")), role],
            env={**os.environ, "SHOP_DATABASE_URL": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.strip() == "scheduler is leading":
                self.leading.set()
            tell(self.name, line.rstrip())

    def kill(self) -> None:
        """End it as a power cut would."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> bool:
        """Ask it to end; return whether it did so, in good order and in time."""
        self._child.send_signal(signal.SIGTERM)
        try:
            status = self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._reader.join(timeout=5)
        return status == 0


@dataclass(frozen=True)
class Ledger:
    """What the shop did, counted in its tables."""

    due: int
    fired: int
    fired_twice: int
    missed: int
    orders: int
    invoices: int
    deliveries: int
    dead_letters: int

    def right(self) -> bool:
        """Return whether nothing was lost and nothing happened twice."""
        return (
            self.due > 0
            and self.fired == self.due
            and self.fired_twice == self.missed == self.dead_letters == 0
            and self.orders > 0
            and self.orders == self.invoices == self.deliveries
        )

    def show(self) -> None:
        """Print it."""
        print("\nledger")
        for name, value in vars(self).items():
            print(f"  {name.replace('_', ' '):<14}{value:>6}")


def read_ledger(
    connection: psycopg.Connection[Any], store: PostgresStore, first: datetime
) -> Ledger:
    """Count what happened, from the schedule's grid and the shop's own tables.

    Args:
        connection: Reads the shop's tables.
        store: Knows the schedule and the dead letters.
        first: The first boundary of the schedule.
    """

    def count(query: str, *params: Any) -> int:
        row = connection.execute(query, params).fetchone()
        assert row is not None
        return int(row[0])

    schedule = store.get_schedule("till report")
    assert schedule is not None and schedule.next_fire_at is not None
    due = (schedule.next_fire_at - first) // schedule.interval
    fired = count("SELECT count(DISTINCT boundary) FROM fires")
    return Ledger(
        due=due,
        fired=fired,
        fired_twice=count("SELECT count(*) - count(DISTINCT boundary) FROM fires"),
        missed=due - fired,
        orders=count("SELECT count(*) FROM orders"),
        invoices=count(
            "SELECT count(DISTINCT order_id) FROM invoices JOIN orders ON id = order_id"
        ),
        deliveries=count("SELECT count(DISTINCT order_id) FROM mails JOIN orders ON id = order_id"),
        dead_letters=len(store.queue("invoices").dead())
        + len(store.queue("reports").dead())
        + len(store.outbox("mails").dead()),
    )


def wait_for_leader(processes: list[Process], limit: float) -> Process | None:
    """Return the process that leads, as soon as one does."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for process in processes:
            if process.leading.wait(0.02):
                return process
    return None


def drained(store: PostgresStore) -> bool:
    """Wait until every job and message is settled."""
    deadline = time.monotonic() + DRAIN_LIMIT
    while time.monotonic() < deadline:
        mails = store.outbox("mails").stats()
        open_mails = mails.ready + mails.delayed + mails.retrying + mails.running
        if open_mails + store.queue("invoices").size() + store.queue("reports").size() == 0:
            return True
        time.sleep(0.1)
    return False


def run(url: str) -> bool:
    """Run the shop on the database at *url*; return whether all went well."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(shop_roles.TABLES)
        with alkstore_postgres.open(url) as store:
            first = shop_roles.register(store).next_fire_at
            assert first is not None
        webs = [Process(f"web-{number}", "web", url) for number in (1, 2)]
        others = [Process("worker", "worker", url), Process("relay", "relay", url)]
        alive = webs + others
        try:
            leader = wait_for_leader(webs, limit=20)
            if leader is None:
                tell("shop", "nobody leads")
                return False
            time.sleep(RUN_BEFORE_KILL)
            tell("shop", f"kills {leader.name}, which leads")
            leader.kill()
            alive.remove(leader)
            killed = time.monotonic()
            heir = next(web for web in webs if web is not leader)
            if wait_for_leader([heir], TAKEOVER_LIMIT) is None:
                tell("shop", f"{heir.name} did not take over")
                return False
            tell("shop", f"{heir.name} took over after {time.monotonic() - killed:.1f} s")
            time.sleep(RUN_AFTER_TAKEOVER)
            alive.remove(heir)
            orderly = heir.stop()
            with alkstore_postgres.open(url) as store:
                orderly = drained(store) and orderly
                while alive:
                    orderly = alive.pop().stop() and orderly
                ledger = read_ledger(connection, store, first)
        finally:
            for process in alive:
                process.kill()
    ledger.show()
    return orderly and ledger.right()


def main() -> int:
    """Run the demonstration; return the exit status."""
    given = os.environ.get("DATABASE_URL")
    if given:
        return 0 if run(given) else 1
    tell("shop", "starts a private PostgreSQL server")
    with embedded.server() as server:
        well = run(server.url)
    tell("shop", "all is well" if well else "SOMETHING IS WRONG")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
