"""The raw limit: psycopg by hand on a minimal table; no retries, heartbeats or options.

An upper bound and not a competitor: a crash between claim and ack loses its jobs here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from bench.contestants.base import Contestant, Enqueue, Handle, override

_TABLE = """
CREATE TABLE raw_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    claimed_at timestamptz,
    payload bytea NOT NULL
);
CREATE INDEX raw_ready ON raw_jobs (id) WHERE claimed_at IS NULL;
"""

_INSERT = "INSERT INTO raw_jobs (payload) VALUES (%s) RETURNING id"
_INSERT_NOTIFY = """
WITH job AS (INSERT INTO raw_jobs (payload) VALUES (%s) RETURNING id)
SELECT id, pg_notify('raw_jobs', '') FROM job
"""
_INSERT_MANY = "INSERT INTO raw_jobs (payload) SELECT unnest(%s::bytea[]) RETURNING id"

_READY = (
    "SELECT id FROM raw_jobs WHERE claimed_at IS NULL ORDER BY id LIMIT {} FOR UPDATE SKIP LOCKED"
)
_CLAIM = f"""
UPDATE raw_jobs SET claimed_at = statement_timestamp()
WHERE id = ANY (ARRAY({_READY}))
RETURNING id, payload
"""
_ACK = "DELETE FROM raw_jobs WHERE id = %s"
_ACK_MANY = "DELETE FROM raw_jobs WHERE id = ANY (%s)"
# What a crash may lose is only that the job was claimed.
_CLAIM_LAZILY = f"""
WITH lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
claimed AS ({_CLAIM})
SELECT claimed.id, claimed.payload FROM claimed, lazily
"""
_ACK_AND_CLAIM = f"WITH done AS (DELETE FROM raw_jobs WHERE id = ANY (%s)) {_CLAIM}"

_CHUNK = 1_000
_POLL = 5.0


class Raw(Contestant):
    """Options: ``notify`` (each enqueue wakes), ``copy`` (bulk by COPY), ``batch`` (jobs a
    claim), ``together`` (ack and claim in one statement, else in two), ``lazy`` (claims do
    not wait for the disk), ``listen`` (wait for wakes when there is nothing), ``ear`` (a
    thread and a connection of their own do that).
    """  # noqa: D205 - a list of options

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.url, autocommit=True)
        connection.prepare_threshold = 1
        return connection

    @override
    def setup(self) -> None:
        """Make the table."""
        with self._connect() as connection:
            connection.execute(_TABLE)

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Insert one row a transaction."""
        statement = _INSERT_NOTIFY if self.options.get("notify") else _INSERT
        with self._connect() as connection:
            cursor = connection.cursor()

            def store_one(number: int) -> None:
                cursor.execute(statement, (b"%d" % number,)).fetchone()

            yield store_one

    @override
    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Insert arrays of 1,000, or COPY, in one transaction."""
        payloads = [b"%d" % number for number in numbers]
        with self._connect() as connection, connection.transaction():
            cursor = connection.cursor()
            if self.options.get("copy"):
                with cursor.copy("COPY raw_jobs (payload) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(["bytea"])
                    for payload in payloads:
                        copy.write_row((payload,))
                return
            for at in range(0, len(payloads), _CHUNK):
                cursor.execute(_INSERT_MANY, (payloads[at : at + _CHUNK],)).fetchall()

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Claim, handle inline, delete; in one thread."""
        batch = int(self.options.get("batch", 1))
        together = bool(self.options.get("together"))
        claim = (_CLAIM_LAZILY if self.options.get("lazy") else _CLAIM).format(batch)
        woken = threading.Event()
        if self.options.get("ear"):
            threading.Thread(target=self._hear, args=(woken,), daemon=True).start()
        with self._connect() as connection:
            if self.options.get("listen"):
                connection.execute("LISTEN raw_jobs")
            cursor = connection.cursor(binary=True)
            done: list[int] = []
            while not stop.is_set():
                if together:
                    cursor.execute(_ACK_AND_CLAIM.format(batch), (done,))
                else:
                    if done:
                        one = len(done) == 1
                        cursor.execute(_ACK if one else _ACK_MANY, (done[0] if one else done,))
                    cursor.execute(claim)
                rows = cursor.fetchall()
                done = [row[0] for row in rows]
                for row in rows:
                    handle(int(row[1]))
                if not rows:
                    self._wait(connection, woken)

    def _hear(self, woken: threading.Event) -> None:
        with self._connect() as connection:
            connection.execute("LISTEN raw_jobs")
            for _ in connection.notifies():
                woken.set()

    def _wait(self, connection: psycopg.Connection[Any], woken: threading.Event) -> None:
        if self.options.get("ear"):
            woken.wait(0.5)
            woken.clear()
        elif self.options.get("listen"):
            # Now and then it looks for the end of the measurement; nothing is sent for that.
            for _ in connection.notifies(timeout=0.5, stop_after=1):
                return
        else:
            time.sleep(0.001)

    @override
    def settled(self) -> None:
        """Wait until the table is empty."""
        with self._connect() as connection:
            while connection.execute("SELECT FROM raw_jobs LIMIT 1").fetchone():
                time.sleep(0.001)

    def task_hear(self, seconds: float) -> list[float]:
        """Return when notifications came within so many seconds, on the monotonic clock."""
        with self._connect() as connection:
            connection.execute("LISTEN heard")
            return [time.monotonic() for _ in connection.notifies(timeout=seconds)]

    def task_notify(self, count: int, gap: float) -> list[float]:
        """Send *count* notifications; return when."""
        sent: list[float] = []
        with self._connect() as connection:
            for _ in range(count):
                time.sleep(gap)
                sent.append(time.monotonic())
                connection.execute("SELECT pg_notify('heard', '')")
        return sent


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Raw(url, options)
