"""procrastinate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import procrastinate

from bench.contestants.async_peer import CONCURRENCY, AsyncPeer
from bench.contestants.base import Contestant, Handle, override


class Procrastinate(AsyncPeer):
    """Its psycopg connector, asynchronous tasks."""

    def _app(self) -> Any:
        return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self.url))

    def _task(self, app: Any, handle: Handle | None) -> Any:
        async def job(number: int) -> None:
            if handle is not None:
                handle(number)

        return app.task(name="job", queue="bench")(job)

    @override
    async def install(self) -> None:
        """Apply its schema."""
        app = self._app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @override
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Open an app."""
        app = self._app()
        async with app.open_async():
            yield self._task(app, None)

    @override
    async def store(self, session: Any, number: int) -> None:
        """Defer a task."""
        await session.defer_async(number=number)

    @override
    async def store_many(self, session: Any, numbers: Sequence[int]) -> None:
        """Defer all in one call."""
        await session.batch_defer_async(*({"number": number} for number in numbers))

    @override
    async def run(self, handle: Handle, stop: asyncio.Event) -> None:
        """Run its worker."""
        app = self._app()
        self._task(app, handle)
        async with app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=["bench"], concurrency=CONCURRENCY, install_signal_handlers=False
                )
            )
            await stop.wait()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


def make(url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant."""
    return Procrastinate(url, options)
