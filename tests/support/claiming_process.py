"""A worker process for races: claims and acks until the queue is empty, or is killed."""

from __future__ import annotations

import sys
import time

import alkstore_postgres


def drain(conninfo: str, schema: str, batch: int) -> None:
    """Claim jobs of the queue ``race``, print each and ack it, until there are none."""
    with alkstore_postgres.open(conninfo, schema, migrate=False) as store:
        queue = store.queue("race")
        _say("ready")
        sys.stdin.readline()  # all processes begin together
        while handles := queue.claim("same name", batch):
            for handle in handles:
                _say(f"{handle.id} {handle.attempt}")
            assert queue.ack_many(handles) == len(handles)


def hang(conninfo: str, schema: str, _batch: int) -> None:
    """Claim one job of the queue ``race``, say so, and work for ever."""
    with alkstore_postgres.open(conninfo, schema, migrate=False) as store:
        (handle,) = store.queue("race").claim_wait("same name", timeout=20)
        _say(f"{handle.id} {handle.attempt}")
        time.sleep(3600)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"drain": drain, "hang": hang}[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
