"""awa-pg: a Rust engine with Python handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from awa import AsyncClient

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override


@dataclass
class BenchJob:
    """The arguments of a job.

    Attributes:
        number: Its number.
    """

    number: int


class Awa(AsyncPeer):
    """Its queue storage, bulk by its own COPY."""

    @override
    async def install(self) -> None:
        """Migrate."""
        async with self.session() as client:
            await client.migrate()
            await client.install_queue_storage()

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Connect."""
        client = AsyncClient(self.url)
        try:
            yield client
        finally:
            await client.close()

    @override
    async def store(self, session: Any, number: int) -> None:
        """Insert one."""
        await session.insert(BenchJob(number), queue="bench")

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Copy all in one call."""
        jobs = [BenchJob(number) for number in numbers]
        await session.enqueue_many_copy(jobs, queue="bench")

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its workers."""
        async with self.session() as client:

            async def job(job: Any) -> None:
                handle(job.args.number)

            client.task(BenchJob, queue="bench")(job)
            await client.start([("bench", CONCURRENCY)])
            await stop.wait()
            await client.shutdown()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Awa(url, options)
