"""A way to the server that can be cut, fall silent or go deaf, and tells what clients send.

It knows where messages begin and end. What a network, a firewall and a pooler can do to a
connection, it does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from alkstore._typing import Self

# Called with the number of the connection (from 1), the type of a client's message, its body.
Observer = Callable[[int, bytes, bytes], None]

_ENCRYPTION_REQUESTS = (80877103, 80877104)
_NO_ENCRYPTION = b"N"
_NOTIFICATION = b"A"


class Proxy:
    """Stands before the server of *conninfo*, without encryption, until it is closed.

    Args:
        conninfo: Where the server is.
        observer: Told each message of a client before it goes on, in a thread of ours.
        port: Where to listen; 0: anywhere.

    Attributes:
        conninfo: The way through this proxy.
        swallows: Whether notifications are dropped, as by a pooler in transaction mode.
        pace: How many bytes a second come through from the server; ``None``: all.
        cuts_before: A type of the server's messages; the first one cuts its way instead of coming
            through.
        accepted: How many connections there have been.
    """

    def __init__(self, conninfo: str, observer: Observer | None = None, *, port: int = 0) -> None:
        given = conninfo_to_dict(conninfo)
        self._host = str(given.pop("hostaddr", None) or given.get("host") or "127.0.0.1")
        self._server_port = int(given.get("port") or 5432)
        self._observer = observer
        self._go = threading.Event()
        self._go.set()
        self._lock = threading.Lock()
        self._closed = False
        self._ways: set[tuple[socket.socket, socket.socket]] = set()
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listening.getsockname()[1]
        self.accepted = 0
        self.swallows = False
        self.pace: float | None = None
        self.cuts_before: bytes | None = None
        ours = {"host": "127.0.0.1", "port": self.port, "sslmode": "disable"}
        self.conninfo = make_conninfo("", **{**given, **ours})
        self._begin(self._accept)

    def cut(self) -> None:
        """End every connection; new ones pass."""
        with self._lock:
            ways = list(self._ways)
        for way in ways:
            _shut(*way)

    def stall(self) -> None:
        """Pass nothing on, for present and coming connections, and close none."""
        self._go.clear()

    @property
    def silent(self) -> bool:
        """Whether nothing is passed on."""
        return not self._go.is_set()

    def resume(self) -> None:
        """Pass everything on again; what was kept back comes first."""
        self._go.set()

    def revive(self) -> None:
        """End what fell silent, so that what was kept back is lost; new connections pass."""
        self.cut()
        self._go.set()

    def close(self) -> None:
        """End all; return when nothing of it is left."""
        with self._lock:
            self._closed = True
        _shut(self._listening)
        self._listening.close()
        self.cut()
        self._go.set()
        for thread in self._threads:
            thread.join(10.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            way = (client, server)
            with self._lock:
                self.accepted += 1
                self._ways.add(way)
                closed = self._closed
            if closed:
                _shut(*way)
            self._begin(self._carry, way, self.accepted)

    def _connect(self) -> socket.socket:
        if self._host.startswith("/"):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(f"{self._host}/.s.PGSQL.{self._server_port}")
            return server
        return socket.create_connection((self._host, self._server_port))

    def _carry(self, way: tuple[socket.socket, socket.socket], number: int) -> None:
        client, server = way
        back = threading.Thread(target=self._downstream, args=way, name="proxy", daemon=True)
        back.start()
        with contextlib.suppress(OSError, EOFError):
            self._upstream(client, server, number)
        _shut(*way)
        back.join()
        with self._lock:
            self._ways.discard(way)
        client.close()
        server.close()

    def _upstream(self, client: socket.socket, server: socket.socket, number: int) -> None:
        while True:
            head = _exactly(client, 8)
            if int.from_bytes(head[4:], "big") in _ENCRYPTION_REQUESTS:
                client.sendall(_NO_ENCRYPTION)
                continue
            self._pass_on(server, head + _exactly(client, int.from_bytes(head[:4], "big") - 8))
            break
        while True:
            head = _exactly(client, 5)
            body = _exactly(client, int.from_bytes(head[1:], "big") - 4)
            if self._observer is not None:
                self._observer(number, head[:1], body)
            self._pass_on(server, head + body)

    def _downstream(self, client: socket.socket, server: socket.socket) -> None:
        kept = b""
        with contextlib.suppress(OSError):
            while data := server.recv(4096):
                if self.pace is not None:
                    time.sleep(len(data) / self.pace)
                whole, kept = _split(kept + data)
                last = next(self._cutting(whole), None)
                through = [one for one in whole[:last] if not self._dropped(one)]
                self._pass_on(client, b"".join(through))
                if last is not None:
                    break
        _shut(client, server)

    def _dropped(self, message: bytes) -> bool:
        return self.swallows and message[:1] == _NOTIFICATION

    def _cutting(self, messages: list[bytes]) -> Iterator[int]:
        return (at for at, one in enumerate(messages) if one[:1] == self.cuts_before)

    def _pass_on(self, target: socket.socket, data: bytes) -> None:
        self._go.wait()
        target.sendall(data)


def _shut(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole messages of a server's data, and what has begun after them."""
    whole: list[bytes] = []
    start = 0
    while len(data) >= start + 5:
        end = start + 1 + int.from_bytes(data[start + 1 : start + 5], "big")
        if len(data) < end:
            break
        whole.append(data[start:end])
        start = end
    return whole, data[start:]


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
