"""The line to the server: one connection that listens, and proves that it hears.

Everything here is non-blocking, statements included: on a connection that went silent a
blocking one would wait for ever. So statements are sent with libpq's asynchronous calls
(the documented ones of `psycopg.pq`), and results and notifications are picked up together
when the socket has something to read. No transaction is ever left open: each message is a
simple query in autocommit mode.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)


class Line:
    """One listening connection.

    Args:
        connection: The connection, in autocommit mode; the line owns it.
        channel: The notification channel of the schema.

    Attributes:
        backend: The process id of the server process that answered `greet`.
        answered: Whether the notification of the last probe has come back.
        heard: How many wakes have arrived, equal ones too.
    """

    def __init__(self, connection: psycopg.Connection[Any], channel: str) -> None:
        self._connection = connection
        self._channel = channel
        # Nobody else hears the probes: no other listener is bothered, and no other
        # notification can pass for an answer.
        self.probe_channel = "alkstore_probe_" + secrets.token_hex(16)
        self._token = ""
        self._busy = False
        self._encoding = connection.info.encoding
        self.backend = 0
        self.answered = False
        self.heard = 0

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection underneath."""
        return self._connection

    @property
    def busy(self) -> bool:
        """Whether a statement is not answered yet."""
        return self._busy

    @property
    def is_proven(self) -> bool:
        """Whether the last probe has come back, and the statement that sent it is answered."""
        return self.answered and not self._busy

    @property
    def is_direct(self) -> bool:
        """Whether the process that answers is the one that was connected to.

        A pooler hands out process ids of its own at connection time.
        """
        return self.backend == self._connection.info.backend_pid

    def fileno(self) -> int:
        """Return the socket's descriptor, for waiting."""
        return self._connection.fileno()

    def greet(self) -> None:
        """Listen for probes only, and ask which server process this is.

        Through a transaction pooler a ``LISTEN`` stays behind on some server connection.
        So the schema's channel comes later, when the line has proved that it hears.
        """
        self._send(f"LISTEN {self.probe_channel}; SELECT pg_catalog.pg_backend_pid()")

    def listen(self) -> None:
        """Listen for the wakes of the schema, with a first probe."""
        # A server that ends idle sessions would end this one again and again.
        quiet = "pg_catalog.set_config('idle_session_timeout', '0', false)"
        setup = f"LISTEN {self._channel}; " + (f"SELECT {quiet}; " if self.is_direct else "")
        self._send(setup + self._probe_statement())

    def probe(self) -> None:
        """Send a notification with a fresh random token to itself."""
        self._send(self._probe_statement())

    def probe_through(self, other: Line) -> None:
        """Have another connection send the probe."""
        other._send(self._probe_statement())

    def read(self) -> list[str]:
        """Take what has arrived; return the names that were woken, each once.

        Raises:
            psycopg.Error: The connection is lost, or a statement failed.
        """
        pgconn = self._connection.pgconn
        pgconn.consume_input()
        if self._busy:
            self._take_results()
        names: dict[str, None] = {}
        while (notification := pgconn.notifies()) is not None:
            text = notification.extra.decode(self._encoding, "replace")
            channel = notification.relname.decode("ascii", "replace")
            if channel == self._channel:
                names[text] = None
                self.heard += 1
            elif channel == self.probe_channel and text == self._token:
                self.answered = True
        return list(names)

    def withdraw(self) -> None:
        """Take back what `greet` may have left behind in a pooler, best effort."""
        with contextlib.suppress(psycopg.Error):
            self._send(f"UNLISTEN {self.probe_channel}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _probe_statement(self) -> str:
        self._token = secrets.token_hex(16)
        self.answered = False
        return f"SELECT pg_catalog.pg_notify('{self.probe_channel}', '{self._token}')"

    def _send(self, statements: str) -> None:
        self._connection.pgconn.send_query(statements.encode("ascii"))
        self._busy = True
        # A few hundred bytes; when they do not fit, no answer comes in time either.
        self._connection.pgconn.flush()

    def _take_results(self) -> None:
        pgconn = self._connection.pgconn
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                self._busy = False
                return
            if result.status in _FAILED:
                raise psycopg.OperationalError(result.get_error_message(self._encoding))
            if result.nfields and result.fname(0) == b"pg_backend_pid":
                self.backend = int(result.get_value(0, 0) or 0)
