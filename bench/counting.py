"""What statements read, counted by the server: no other load on the machine changes it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.figures import Results
from bench.server import Server

_RESET = "SELECT pg_stat_statements_reset(dbid => %s)"
_PAGES = """
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8
FROM pg_stat_statements(false) WHERE dbid = %s
"""


@dataclass(frozen=True)
class Cost:
    """What a call costs.

    Attributes:
        pages: Pages of 8 kB that its statements touched, cached or not, on average.
        milliseconds: How long it took its caller, the median.
    """

    pages: float
    milliseconds: float


@dataclass(frozen=True)
class Question:
    """What is asked at each of several sizes.

    Attributes:
        scenario: Whose question it is.
        title: The title of its curves.
        size: What grows.
    """

    scenario: str
    title: str
    size: str

    def note(self, results: Results, case: str, size: int, cost: Cost) -> None:
        """Add a point to the curve of pages, and one to that of time."""
        for unit, value in (("pages", cost.pages), ("ms", cost.milliseconds)):
            results.curve(self.scenario, self.title, self.size, unit).add(case, size, value)


class Counter:
    """Counts the statements of one database, from outside of it.

    Args:
        connection: A session in the database where the server shows its counts.
        database: The database's name.
    """

    def __init__(self, connection: psycopg.Connection[Any], database: str) -> None:
        self._connection = connection
        found = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (database,))
        self._database = found.fetchall()[0][0]

    def cost(self, call: Callable[[], object], times: int, warm: int = 6) -> Cost:
        """Return what *call* costs.

        Args:
            call: What is measured.
            times: How often.
            warm: How often before that, so that its statements are prepared.
        """
        for _ in range(warm):
            call()
        self.reset()
        took: list[float] = []
        for _ in range(times):
            began = time.monotonic()
            call()
            took.append(time.monotonic() - began)
        return Cost(self.pages() / times, statistics.median(took) * 1e3)

    def reset(self) -> None:
        """Count from here."""
        self._connection.execute(_RESET, (self._database,))

    def pages(self) -> float:
        """Return how many pages were touched since."""
        return float(self._connection.execute(_PAGES, (self._database,)).fetchall()[0][0])


@contextmanager
def counting(server: Server, url: str) -> Iterator[Counter]:
    """Lend a counter for the database at *url*.

    Raises:
        RuntimeError: The server counts nothing.
    """
    if not server.count_statements():
        msg = "the server has not loaded pg_stat_statements"
        raise RuntimeError(msg)
    with server.connect() as connection:
        yield Counter(connection, str(conninfo_to_dict(url)["dbname"]))
