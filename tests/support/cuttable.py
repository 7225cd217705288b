"""A way to the server that can be cut, or fall silent, under one client alone."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class CuttableWay:
    """Forwards connections to the server until it is told otherwise.

    Args:
        conninfo: Where the server is.
    """

    def __init__(self, conninfo: str) -> None:
        given = conninfo_to_dict(conninfo)
        self._host = str(given.get("host") or "127.0.0.1")
        self._port = int(given.get("port") or 5432)
        self._silent = threading.Event()
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        given.pop("hostaddr", None)
        self.conninfo = make_conninfo(
            "", **{**given, "host": "127.0.0.1", "port": port, "sslmode": "disable"}
        )
        self._thread = threading.Thread(target=self._accept, name="cuttable-way", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Reset every connection; new ones are forwarded."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def fall_silent(self) -> None:
        """Pass nothing on any more, and close nothing: a network that swallows all."""
        self._silent.set()

    def speak(self) -> None:
        """Pass on what comes from now on; what was silent is cut."""
        self._silent.clear()
        self.cut()

    def close(self) -> None:
        """Cut all and accept nothing more. May be repeated."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait for a connection
        self._thread.join(10)
        self._listener.close()
        self._silent.clear()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(
                target=self._forward, args=(client, server), name="cuttable-pair", daemon=True
            ).start()

    def _connect(self) -> socket.socket:
        if self._host.startswith("/"):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(f"{self._host}/.s.PGSQL.{self._port}")
            return server
        return socket.create_connection((self._host, self._port))

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                if self._silent.is_set():
                    # Nothing is read: the sender's window fills up, as with a dead network.
                    self._silent.wait(0.1)
                    threading.Event().wait(0.05)
                    continue
                for end in ready:
                    try:
                        data = end.recv(65_536)
                        (server if end is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
