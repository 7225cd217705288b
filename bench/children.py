"""Contestants in processes of their own, as the benchmark sees them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from alkstore._typing import Self
from bench.figures import Kind

ROOT = Path(__file__).resolve().parent.parent


class ContestantFailed(Exception):
    """A contestant could not do what it was asked for."""


class Child:
    """One process of a contestant.

    Args:
        module: Its module in `bench.contestants`.
        url: Its database.
        options: Its variant.
        python: The interpreter; ``None``: this one.
        log: Where its error output goes.
        limit: How long it may take for an answer, in seconds, when the call names no limit.
        kind: Ourselves, the raw limit, or a peer.

    Raises:
        ContestantFailed: It cannot be started.
    """

    def __init__(
        self,
        module: str,
        url: str,
        options: dict[str, Any] | None = None,
        python: str | None = None,
        log: IO[str] | None = None,
        *,
        limit: float = 600.0,
        kind: Kind = "ours",
    ) -> None:
        self.module = module
        self.kind = kind
        self._limit = limit
        command = [python or sys.executable, "-m", "bench.host"]
        try:
            self._pipe = subprocess.Popen(
                [*command, module, url, json.dumps(options or {})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log or subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
                text=True,
                bufsize=1,
                # A group of its own: what a peer starts must not outlive it.
                start_new_session=True,
            )
        except OSError as error:
            msg = f"{module} cannot be started: {error}"
            raise ContestantFailed(msg) from error

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pipe.pid

    def ask(self, task: str, **arguments: Any) -> None:
        """Send a task without waiting for its answer."""
        assert self._pipe.stdin is not None  # noqa: S101 - opened so
        try:
            self._pipe.stdin.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
            self._pipe.stdin.flush()
        except OSError as error:
            msg = f"{self.module} is gone"
            raise ContestantFailed(msg) from error

    def answer(self, limit: float | None = None) -> Any:
        """Return the answer to the last task.

        Raises:
            ContestantFailed: It failed, is gone, or took longer than *limit* seconds.
        """
        limit = self._limit if limit is None else limit
        assert self._pipe.stdout is not None  # noqa: S101 - opened so
        if not select.select([self._pipe.stdout], [], [], limit)[0]:
            self.kill()
            msg = f"{self.module} did not answer in {limit:g} s"
            raise ContestantFailed(msg)
        line = self._pipe.stdout.readline()
        if not line:
            msg = f"{self.module} ended"
            raise ContestantFailed(msg)
        try:
            answer = json.loads(line)
        except ValueError as error:
            msg = f"{self.module} answered nonsense"
            raise ContestantFailed(msg) from error
        if "error" in answer:
            msg = f"{self.module}: {answer['error']}"
            raise ContestantFailed(msg)
        return answer["result"]

    def call(self, task: str, limit: float | None = None, **arguments: Any) -> Any:
        """Send a task and return its answer, waiting *limit* seconds at most."""
        self.ask(task, **arguments)
        return self.answer(limit)

    def kill(self) -> None:
        """End it at once (SIGKILL), with all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pipe.pid, signal.SIGKILL)
        self._pipe.wait()

    def close(self) -> None:
        """Let it end by itself, and see to it that it does."""
        if self._pipe.stdin is not None:
            with contextlib.suppress(OSError):
                self._pipe.stdin.close()
        if self._pipe.returncode is None:
            self._await_end(20.0)
            self.kill()
        if self._pipe.stdout is not None:
            self._pipe.stdout.close()

    def _await_end(self, seconds: float) -> None:
        """Wait for its end without reaping it: the number of its group stays its own."""
        limit = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while time.monotonic() < limit and os.waitid(os.P_PID, self.pid, flags) is None:
            time.sleep(0.005)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
