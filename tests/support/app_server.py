"""An application server of a test: a real process that answers on a socket of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from alkstore._typing import override
from tests.support.processes import ROOT

_AT_ONCE = 6


class AppServer:
    """Runs *command* until it is stopped.

    Args:
        command: What to run, in the repository's root.
        socket_path: Where it will listen.
        environment: What is set beside our own environment.
    """

    def __init__(
        self, command: Sequence[str], socket_path: Path, environment: Mapping[str, str]
    ) -> None:
        self._path = str(socket_path)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self._process.pid

    def output(self) -> str:
        """Return what all its processes have written."""
        return os.pread(self._output.fileno(), 1_000_000, 0).decode("utf-8", "replace")

    def get(self, path: str) -> Any:
        """Return the answer to a request, once the server answers."""
        deadline = time.monotonic() + 30
        while True:
            assert self._process.poll() is None, self.output()
            connection = _Connection(self._path)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == 200, self.output()
                return json.loads(body)
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < deadline, self.output()
                time.sleep(0.05)
            finally:
                connection.close()

    def everyone(self, count: int) -> list[dict[str, Any]]:
        """Return what *count* different processes answer about themselves."""
        known: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + 30
        while len(known) < count:
            assert time.monotonic() < deadline, f"{known}\n{self.output()}"
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                for answer in threads.map(self.get, ["/"] * _AT_ONCE):
                    known[answer["pid"]] = answer
        return list(known.values())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started."""
        self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Return its exit status; fail when it goes on for longer."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it went on for {timeout} s\n{self.output()}") from None

    def close(self) -> None:
        """Kill it, and all that it has started, unless it has ended."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket of the file system: no port to collide on."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self._path)
