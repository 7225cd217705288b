"""chancy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from chancy import Chancy, Queue, Worker, job

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override

_handles: list[Handle] = []


async def bench_job(*, number: int) -> None:
    """Tell the handler of this process."""
    for handle in _handles:
        handle(number)


_Job: Any = job(queue="bench")(bench_job)


class ChancyPeer(AsyncPeer):
    """Its asyncio executor, with eager polling: without, it does a batch a poll."""

    @override
    async def install(self) -> None:
        """Migrate, and declare the queue."""
        async with self.session() as chancy:
            await chancy.migrate()
            await chancy.declare(
                Queue(
                    "bench",
                    concurrency=CONCURRENCY,
                    executor=Chancy.Executor.Async,
                    eager_polling=True,
                )
            )

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Open an app."""
        async with Chancy(self.url, log=logging.getLogger("chancy")) as chancy:
            yield chancy

    @override
    async def store(self, session: Any, number: int) -> None:
        """Push one."""
        await session.push(_Job.job.with_kwargs(number=number))

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Push all; it makes batches itself."""
        jobs = [_Job.job.with_kwargs(number=number) for number in numbers]
        async for _ in session.push_many(jobs):
            pass

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its worker."""
        _handles[:] = [handle]
        async with (
            self.session() as chancy,
            Worker(chancy, register_signal_handlers=False, shutdown_timeout=5),
        ):
            await stop.wait()


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return ChancyPeer(url, options)
