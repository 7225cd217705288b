"""A proxy that knows where a server's messages begin and end, and may keep some back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from alkstore._typing import Self

_NOTIFICATION = b"A"


class MessageProxy:
    """Stands between a client and a PostgreSQL server; without encryption.

    Args:
        host: The server's address.
        server_port: The server's port.
        port: Where to listen; 0: anywhere.

    Attributes:
        swallows: Notifications are dropped, as by a transaction pooler.
        accepted: How many connections there have been.
    """

    def __init__(self, host: str, server_port: int, port: int = 0) -> None:
        self._server = (host, server_port)
        self._listening = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = [self._listening]
        self._closed = False
        self._go = threading.Event()
        self._go.set()
        self.swallows = False
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where clients connect to."""
        port: int = self._listening.getsockname()[1]
        return port

    def stall(self) -> None:
        """Go silent, for open connections and those to come: a silent loss of the network."""
        self._go.clear()

    def resume(self) -> None:
        """Pass everything on again; what was kept back comes first."""
        self._go.set()

    def close(self) -> None:
        """Close everything."""
        self._closed = True
        self._go.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.accepted += 1
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                for carry in (self._upstream, self._downstream):
                    threading.Thread(target=self._carry, args=(carry, client, server)).start()

    def _carry(
        self,
        carry: Callable[[socket.socket, socket.socket], None],
        client: socket.socket,
        server: socket.socket,
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            carry(client, server)
        for one in (client, server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        while data := client.recv(65536):
            self._go.wait()
            server.sendall(data)

    def _downstream(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            head = _exactly(server, 5)
            body = _exactly(server, int.from_bytes(head[1:], "big") - 4)
            self._go.wait()
            if not (self.swallows and head[:1] == _NOTIFICATION):
                client.sendall(head + body)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
