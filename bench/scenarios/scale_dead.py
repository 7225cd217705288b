"""How the cost of working dead letters grows with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import alkstore_postgres
from alkstore.traits import Queue
from bench import rows
from bench.bench import Bench
from bench.cases import ours
from bench.counting import Question, counting
from bench.registry import scenario

_PAGE = 100
_QUESTION = Question("scale-dead", "Dead letters: cost of a call", "dead letters")


@scenario("scale-dead", "Scale: dead letters", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Pages touched and milliseconds of calls beside so many dead letters of the same queue:
    a job that is claimed and fails, a page of 100 dead letters that were never read, the
    requeue of one, and `stats()`, which counts 20,000 of them at most.
    """  # noqa: D205 - shown in the report as it is
    sizes = bench.pick((0, 10_000, 100_000), (0, 10_000, 100_000, 1_000_000))
    with bench.lend(ours()) as (_, url):
        there = 0
        for size in sizes:
            with bench.server.connect(url) as connection:
                rows.first(connection, "bench", 100)
                rows.beside(connection, "bench", "dead", size - there)
                rows.settle(connection)
            there = size
            bench.server.calm()
            with alkstore_postgres.open(url) as store, counting(bench.server, url) as counter:
                for name, call in _calls(store.queue("bench")):
                    cost = counter.cost(call, 20)
                    _QUESTION.note(bench.results, name, size, cost)


def _calls(queue: Queue) -> list[tuple[str, Callable[[], object]]]:
    def fail() -> None:
        for job in queue.claim("bench"):
            job.fail("e")

    pages = _pages(queue)
    # Some of those that have just failed; at the last there are enough.
    ids: Iterator[int] = iter([])

    def requeue() -> None:
        nonlocal ids
        place = next(ids, None)
        if place is None:
            ids = iter([dead.id for dead in queue.dead(_PAGE)])
            place = next(ids)
        queue.requeue([place])

    return [
        ("claim and fail", fail),
        (f"page of {_PAGE}", lambda: next(pages)),
        ("requeue of one", requeue),
        ("stats", queue.stats),
    ]


def _pages(queue: Queue) -> Iterator[int]:
    """Go through the dead letters page by page; return the length of each."""
    while True:
        after = None
        while page := queue.dead(_PAGE, after):
            yield len(page)
            after = page[-1]
        yield 0
