"""pgqueuer, on asyncpg: its quicker driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override


class Pgqueuer(AsyncPeer):
    """One connection, batches of 100."""

    @override
    async def install(self) -> None:
        """Make its tables."""
        async with self.session() as queries:
            await queries.install()

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Connect."""
        connection = await asyncpg.connect(self.url)
        try:
            yield Queries(AsyncpgDriver(connection))
        finally:
            await connection.close()

    @override
    async def store(self, session: Any, number: int) -> None:
        """Enqueue one."""
        await session.enqueue("bench", b"%d" % number)

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Enqueue arrays."""
        count = len(numbers)
        payloads = [b"%d" % number for number in numbers]
        await session.enqueue(["bench"] * count, payloads, [0] * count)

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its queue manager."""
        connection = await asyncpg.connect(self.url)
        worker = PgQueuer(AsyncpgDriver(connection))

        async def job(job: Any) -> None:
            handle(int(job.payload))

        worker.entrypoint("bench")(job)
        running = asyncio.create_task(worker.run(batch_size=CONCURRENCY))
        await asyncio.wait(
            [running, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        worker.shutdown.set()
        await asyncio.wait([running], timeout=5.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Pgqueuer(url, options)
