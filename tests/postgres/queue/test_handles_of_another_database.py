"""A schema of the same name in another database: nothing but the claim tells handles apart."""

from __future__ import annotations

import alkstore_postgres
from alkstore.traits import Queue


def test_a_handle_of_another_database_holds_no_job_here(
    queue: Queue, schema: str, database_url: str
) -> None:
    with alkstore_postgres.open(database_url, schema) as elsewhere:
        its_queue = elsewhere.queue("mail")
        for one in (queue, its_queue):
            one.enqueue(1)
        (own,), (foreign,) = queue.claim("w"), its_queue.claim("w")
        assert own.id == foreign.id
        assert queue.heartbeat_many([foreign]) == queue.ack_many([foreign]) == 0
        assert foreign.lost
        assert foreign.ack()  # it is still the holder of its own
        assert own.ack()
