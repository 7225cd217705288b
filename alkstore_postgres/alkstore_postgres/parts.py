"""The parts of a store, built once over one pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from alkstore.errors import StoreClosed
from alkstore.runners.leader_watch import LeaderWatch
from alkstore.stop_token import StopToken
from alkstore_postgres.database.database import Database
from alkstore_postgres.database.ending import rest_if_ending
from alkstore_postgres.database.errors import translated
from alkstore_postgres.database.pools import Pools
from alkstore_postgres.lock.leases import Leases
from alkstore_postgres.lock.locks import Locks
from alkstore_postgres.queue.claim_places import ClaimPlaces
from alkstore_postgres.queue.claimer import Claimer
from alkstore_postgres.queue.dead_letters import DeadLetters
from alkstore_postgres.queue.inspector import Inspector
from alkstore_postgres.queue.producer import Producer
from alkstore_postgres.queue.queue import QueueParts
from alkstore_postgres.queue.settler import Settler
from alkstore_postgres.scheduler.leader import LeaderLoop
from alkstore_postgres.scheduler.registry import Registry
from alkstore_postgres.settings import Settings
from alkstore_postgres.wakes.hub import WakeHub
from alkstore_postgres.wakes.sender import WakeSender

_LEADERS_LIMIT = 1.0
"""How long the end of a store waits for leader loops, in seconds."""

_LEADERS_LIMIT_AT_EXIT = 0.2
"""The same at the end of the interpreter."""


class Parts:
    """Everything that a store hands out is made of these.

    Args:
        pools: Where the pool of this process comes from.
        settings: The store's settings.
        direct: Opens a connection beside the pool, for the listener.
    """

    def __init__(
        self, pools: Pools, settings: Settings, direct: Callable[[], psycopg.Connection[Any]]
    ) -> None:
        schema, codec = settings.schema, settings.codec
        self._leading: dict[int, StopToken] = {}
        self._over = False
        self._pools = pools
        self.database = Database(pools, schema, settings.timeout)
        self.hub = WakeHub(direct, schema)
        self.sender = WakeSender(self.database, schema, self.hub)
        self.leases = Leases(self.database, self.sender.channel)
        self.locks = Locks(self.leases, self.hub)
        places = ClaimPlaces()
        settler = Settler(self.database, self.sender, places)
        self.queues = QueueParts(
            producer=Producer(
                self.database, self.sender, codec, settings.max_payload_bytes, places
            ),
            claimer=Claimer(self.database, self.hub, settler, codec, places),
            settler=settler,
            inspector=Inspector(self.database, codec),
            dead_letters=DeadLetters(self.database, codec),
        )
        self.registry = Registry(
            self.database, self.sender.channel, codec, settings.max_payload_bytes
        )

    @contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection for the migrator.

        With a pool of our own it is a direct one: a wrong password or address is then
        told as it is, not as a pool that gave nothing in time.
        """
        if self._pools.lent is not None:
            with self.database.connection() as connection:
                yield connection
            return
        with translated():
            connection = self._pools.connect()
        try:
            yield connection
        finally:
            connection.close()

    def lead(self, stop: StopToken, watch: LeaderWatch | None = None) -> None:
        """Run a leader loop of its own until *stop* is cancelled.

        Raises:
            StoreClosed: The store was closed meanwhile; the lease was given back.
        """
        own = stop.child()
        self._leading[id(own)] = own
        if self._over:
            own.cancel()  # the end of the store may have looked before
        try:
            LeaderLoop(self.database, self.hub).run(own, watch)
        finally:
            del self._leading[id(own)]
        if not stop.cancelled:
            rest_if_ending()
            msg = "the store is closed"
            raise StoreClosed(msg)

    def stop_leading(self, limit: float = _LEADERS_LIMIT) -> None:
        """End the leader loops that still run, and let them give the lease back.

        None begins any more.

        Args:
            limit: How long to wait for them, in seconds.
        """
        self._over = True
        for own in list(self._leading.values()):
            own.cancel()
        deadline = time.monotonic() + limit
        while self._leading and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        """Close the sender, the listener and our own pool.

        The listener wakes whoever waits. One that looks again has to find that the store is
        closed, or it would sleep on; and the pool may take a while to end.
        """
        self.sender.close()
        self._pools.refuse()
        try:
            self.hub.close()
        finally:  # after Ctrl-C too: a second call would find the store closed
            self._pools.close()

    def end(self) -> None:
        """Close what would hold up the end of the interpreter; the rest ends with it.

        Leases go back when the database answers soon.
        """
        self.stop_leading(_LEADERS_LIMIT_AT_EXIT)
        self.sender.close()
        self._pools.close(patience=0.1)

    def after_fork(self) -> None:
        """Forget what belongs to the parent."""
        self._leading = {}
        self._pools.after_fork()
        self.hub.after_fork()
        self.sender.after_fork()
