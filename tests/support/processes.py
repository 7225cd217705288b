"""Child processes for race tests: they talk in messages and are gone when the test is over.

A child runs a function of a module, ``def contender(parent: Parent, url: str) -> None``, in a
fresh interpreter. Both sides say and hear messages (anything that JSON knows), in order::

    with Children() as children:
        one, two = (children.start(contender, url) for _ in range(2))
        children.release()  # both are past their parent.barrier() now
        assert one.hear() != two.hear()
        one.kill()
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from alkstore._typing import Self

ROOT = Path(__file__).parents[2]

_READY = {"barrier": "ready"}
_GO = {"barrier": "go"}


class Parent:
    """The other side, as a child sees it."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._source = source
        self._target = target

    def say(self, message: Any) -> None:
        """Tell the parent."""
        self._target.write(json.dumps(message) + "\n")
        self._target.flush()

    def hear(self) -> Any:
        """Wait for what the parent says; the process ends when the parent is gone."""
        line = self._source.readline()
        if not line:
            sys.exit(3)
        return json.loads(line)

    def barrier(self) -> None:
        """Wait until the parent releases all."""
        self.say(_READY)
        assert self.hear() == _GO


class Child:
    """A running child process."""

    def __init__(
        self, function: Callable[..., None], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._name = f"{function.__module__}:{function.__qualname__}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes", self._name, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            **options,
        )

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def say(self, message: Any) -> None:
        """Tell the child."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, timeout: float = 20.0) -> Any:
        """Return the child's next message; fail when it ends, or says nothing in time."""
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            ready = select.select([source], [], [], max(left, 0.0))[0]
            piece = os.read(source, 65536) if ready else b""
            if not piece:
                what = "ended" if ready else f"said nothing for {timeout} s"
                raise AssertionError(f"{self._name} {what}\n{self.errors()}")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def errors(self) -> str:
        """Return what it wrote to its standard error."""
        return os.pread(self._errors.fileno(), 1_000_000, 0).decode("utf-8", "replace")

    def _where(self) -> str:
        """End one that takes too long; return what it wrote, and where its threads were."""
        self.thaw()
        self.signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        return self.errors()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop it where it is, as a long pause of its machine would."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        self._process.kill()
        self._process.wait()

    def wait(self, timeout: float = 20.0) -> int:
        """Return its exit status (negative: the signal); fail when it goes on for longer."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._name} went on for {timeout} s\n{self._where()}") from None

    def finish(self, timeout: float = 20.0) -> None:
        """Wait for it to end well."""
        status = self.wait(timeout)
        assert status == 0, f"{self._name} ended with {status}\n{self.errors()}"

    def close(self) -> None:
        """Kill it unless it has ended, and close all that belongs to it."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue  # something unread was left in the pipe


class Children:
    """The children of one test; none of them outlives the block."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, function: Callable[..., None], *arguments: Any, **options: Any) -> Child:
        """Start a child.

        Args:
            function: Of a module that can be imported from the repository's root; it gets a
                `Parent` and the arguments.
            arguments: Anything that JSON knows.
            options: For `subprocess.Popen`, such as ``user`` or ``env``.
        """
        child = Child(function, arguments, options)
        self._children.append(child)
        return child

    def release(self, timeout: float = 20.0) -> None:
        """Wait until all living children are at their barrier, then let all go at once."""
        living = [child for child in self._children if child.alive]
        for child in living:
            assert child.hear(timeout) == _READY
        for child in living:
            child.say(_GO)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.close()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(3)


def main() -> None:
    """Be a child."""
    faulthandler.enable()  # an abort shows where every thread was
    # Messages have the standard output for themselves; what is printed goes elsewhere.
    target = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    module, name = sys.argv[1].split(":")
    function = getattr(importlib.import_module(module), name)
    function(Parent(sys.stdin, target), *json.loads(sys.argv[2]))


if __name__ == "__main__":
    main()
