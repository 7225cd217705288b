"""oban."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oban import Oban, worker
from oban.schema import install

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override

_handles: list[Handle] = []


class _Job:
    async def process(self, job: Any) -> None:
        for handle in _handles:
            handle(job.args["number"])


_Worker: Any = worker(queue="bench")(_Job)


class ObanPeer(AsyncPeer):
    """Its own pool, default notifier."""

    @asynccontextmanager
    async def _pool(self) -> AsyncIterator[Any]:
        pool = await Oban.create_pool(self.url)
        try:
            yield pool
        finally:
            await pool.close()

    @override
    async def install(self) -> None:
        """Make its tables."""
        async with self._pool() as pool:
            await install(pool)

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Open a client instance."""
        async with self._pool() as pool, Oban(pool=pool) as oban:
            yield oban

    @override
    async def store(self, session: Any, number: int) -> None:
        """Enqueue one."""
        await session.enqueue(_Worker.new({"number": number}))

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Enqueue all in one call."""
        await session.enqueue_many([_Worker.new({"number": number}) for number in numbers])

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run a server instance."""
        _handles[:] = [handle]
        async with self._pool() as pool, Oban(pool=pool, queues={"bench": CONCURRENCY}):
            await stop.wait()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return ObanPeer(url, options)
