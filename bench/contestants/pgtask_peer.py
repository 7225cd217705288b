"""pgtask: a Rust engine with Python handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pgtask import Client, TaskRegistry, Worker

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override

_CHUNK = 1_000


class Pgtask(AsyncPeer):
    """Default options, but for the concurrency."""

    def _define(self, handle: Handle | None) -> tuple[Any, Any]:
        registry = TaskRegistry("bench")

        async def job(_task: Any, number: int) -> None:
            if handle is not None:
                handle(number)

        return registry, registry.task("job")(job)

    @override
    async def install(self) -> None:
        """Migrate."""
        client = await Client.connect(self.url)
        await client.migrate()

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Connect."""
        yield await Client.connect(self.url), self._define(None)[1]

    @override
    async def store(self, session: Any, number: int) -> None:
        """Enqueue one."""
        client, task = session
        await client.enqueue(task.request(number))

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Enqueue batches of 1,000."""
        client, task = session
        for at in range(0, len(numbers), _CHUNK):
            await client.enqueue_many(
                [task.request(number) for number in numbers[at : at + _CHUNK]]
            )

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its worker."""
        registry, _ = self._define(handle)
        worker = Worker(self.url, registry, concurrency=CONCURRENCY, shutdown_grace=5.0)
        running = asyncio.create_task(worker.run())
        await stop.wait()
        worker.shutdown()
        await running


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Pgtask(url, options)
