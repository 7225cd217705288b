"""absurd: durable tasks; its tables come from absurdctl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import psycopg

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override

_sdk: Any = import_module("absurd_sdk")
_ctl: Any = import_module("absurdctl")


class Absurd(AsyncPeer):
    """Its asynchronous client and worker; it polls as often as it does by itself."""

    has_bulk = False

    @override
    async def install(self) -> None:
        """Apply what `absurdctl init` applies, and create the queue."""
        connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        async with connection:
            await connection.execute(_ctl.BUNDLED_SCHEMA_SQL)
        async with self.session() as app:
            await app.create_queue("bench")

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Open an app."""
        app = _sdk.AsyncAbsurd(self.url, queue_name="bench")
        try:
            yield app
        finally:
            await app.close()

    @override
    async def store(self, session: Any, number: int) -> None:
        """Spawn a task."""
        await session.spawn("job", {"number": number}, queue="bench")

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Spawn them one by one: there is no other way."""
        for number in numbers:
            await self.store(session, number)

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its worker."""

        async def job(params: Any, _context: Any) -> None:
            handle(params["number"])

        async with self.session() as app:
            app.register_task(name="job")(job)
            running = asyncio.create_task(app.start_worker(concurrency=CONCURRENCY))
            await asyncio.wait(
                [running, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            app.stop_worker()
            await running


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Absurd(url, options)
