"""How costs grow with the number of queues."""

from __future__ import annotations

import random
from collections.abc import Callable

import alkstore_postgres
from alkstore.traits import Queue
from alkstore_postgres import PostgresStore
from bench import rows
from bench.bench import Bench
from bench.cases import ours
from bench.counting import Question, counting
from bench.registry import scenario

_JOBS = 20
_QUESTION = Question("scale-queues", "Queues: cost of a call", "queues")


@scenario("scale-queues", "Scale: queues", full_only=True, group="scale")
def run(bench: Bench) -> None:
    """Pages touched and milliseconds of calls on a queue picked at random, of so many queues
    with 20 ready jobs each: an enqueue, a claim of one with its ack, and `stats()`.
    """  # noqa: D205 - shown in the report as it is
    for size in bench.pick((1, 100, 10_000), (1, 10, 100, 1_000, 10_000)):
        with bench.lend(ours()) as (_, url):
            with bench.server.connect(url) as connection:
                rows.first(connection, "q", size * _JOBS, size)
                rows.settle(connection)
            bench.server.calm()
            with alkstore_postgres.open(url) as store, counting(bench.server, url) as counter:
                for name, call, times in _calls(store, size):
                    cost = counter.cost(call, times)
                    _QUESTION.note(bench.results, name, size, cost)


def _calls(store: PostgresStore, size: int) -> list[tuple[str, Callable[[], object], int]]:
    def any_queue() -> Queue:
        return store.queue(f"q{random.randrange(size)}" if size > 1 else "q")

    def claim_and_ack() -> None:
        for job in any_queue().claim("bench"):
            job.ack()

    return [
        ("enqueue", lambda: any_queue().enqueue(1), 60),
        ("claim and ack", claim_and_ack, 60),
        ("stats", lambda: any_queue().stats(), 30),
    ]
