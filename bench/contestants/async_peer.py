"""Peers that are asynchronous: each client, and the worker, has a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from bench.contestants.base import Contestant, Enqueue, Handle, override

CONCURRENCY = 100
"""How many handlers at once: no peer shall wait for its own default of a few."""


class AsyncPeer(Contestant):
    """A peer whose calls are coroutines."""

    @abstractmethod
    async def install(self) -> None:
        """Make the tables."""

    @abstractmethod
    def session(self) -> AbstractAsyncContextManager[Any]:
        """Connect as a client."""

    @abstractmethod
    async def store(self, session: Any, number: int) -> None:
        """Store one job."""

    @abstractmethod
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Store many jobs."""

    @abstractmethod
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Work until *stop* is set."""

    @override
    def setup(self) -> None:
        """Make the tables."""
        asyncio.run(self.install())

    @override
    @contextmanager
    def client(self) -> Iterator[Enqueue]:
        """Store single jobs, each call on a loop that stays."""
        loop = asyncio.new_event_loop()
        context = self.session()
        session = loop.run_until_complete(context.__aenter__())
        try:
            yield lambda number: loop.run_until_complete(self.store(session, number))
        finally:
            loop.run_until_complete(context.__aexit__(None, None, None))
            loop.close()

    @override
    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Store many jobs."""

        async def all_of_them() -> None:
            async with self.session() as session:
                await self.store_many(session, numbers)

        asyncio.run(all_of_them())

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Run the worker on a loop in this thread."""

        async def until_stopped() -> None:
            ended = asyncio.Event()

            async def watch() -> None:
                while not stop.is_set():  # noqa: ASYNC110 - it is set in another thread
                    await asyncio.sleep(0.05)
                ended.set()

            watcher = asyncio.create_task(watch())
            await self.run(handle, ended)
            watcher.cancel()

        asyncio.run(until_stopped())
