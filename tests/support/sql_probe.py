"""Counts what a block of code sends to the server: exact, read off the wire.

A store opened through `SqlProbe.conninfo` is watched whole, its background threads included;
start none in the block, or look at `Traffic.statements`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from alkstore._typing import Self, override
from tests.support.proxy import Proxy

_QUERY, _PARSE, _BIND, _EXECUTE, _SYNC, _FLUSH = b"Q", b"P", b"B", b"E", b"S", b"H"


class Traffic:
    """What was sent.

    Attributes:
        round_trips: How often a client sent something and then waited for its answer.
        statements: The texts of the statements that were run, in order; BEGIN and COMMIT
            are among them.
    """

    def __init__(self) -> None:
        self.round_trips = 0
        self.statements: list[str] = []

    @override
    def __repr__(self) -> str:
        return f"{self.round_trips} round trips: {self.statements}"


class SqlProbe:
    """A proxy before the server that reads along.

    Args:
        conninfo: Where the server is.

    Attributes:
        conninfo: The way to the server that is watched.
    """

    def __init__(self, conninfo: str) -> None:
        self._lock = threading.Lock()
        self._seen: list[Traffic] = []
        self._prepared: dict[tuple[int, bytes], str] = {}
        self._bound: dict[tuple[int, bytes], str] = {}
        self._proxy = Proxy(conninfo, self._observe)
        self.conninfo = self._proxy.conninfo

    @contextmanager
    def watching(self) -> Iterator[Traffic]:
        """Count what is sent during the block."""
        traffic = Traffic()
        with self._lock:
            self._seen.append(traffic)
        try:
            yield traffic
        finally:
            with self._lock:
                self._seen.remove(traffic)

    def close(self) -> None:
        """End the proxy, and all connections through it."""
        self._proxy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _observe(self, connection: int, kind: bytes, body: bytes) -> None:
        with self._lock:
            text = None
            if kind == _QUERY:
                text = _text(body[:-1])
            elif kind == _PARSE:
                name, query = body.split(b"\0", 2)[:2]
                self._prepared[connection, name] = _text(query)
            elif kind == _BIND:
                portal, name = body.split(b"\0", 2)[:2]
                self._bound[connection, portal] = self._prepared[connection, name]
            elif kind == _EXECUTE:
                text = self._bound[connection, body.split(b"\0", 1)[0]]
            for traffic in self._seen:
                if text is not None:
                    traffic.statements.append(text)
                traffic.round_trips += kind in {_QUERY, _SYNC, _FLUSH}


def _text(query: bytes) -> str:
    return query.decode("utf-8", "replace")
