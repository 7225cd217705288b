"""The process of one contestant: does what the benchmark asks for, line by line.

``python -m bench.host MODULE URL OPTIONS`` reads one JSON object a line (``task`` and
``arguments``) and answers each with one (``result`` or ``error``).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from bench.contestants import tasks
from bench.contestants.base import Contestant


class Host:
    """Runs tasks on one contestant.

    Args:
        contestant: Who is measured.
    """

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self._idle: tasks.Idle | None = None

    def run(self, task: str, arguments: dict[str, Any]) -> Any:
        """Run a task of everybody's, or one that only this contestant has."""
        own: Callable[..., Any] | None = getattr(self._contestant, f"task_{task}", None)
        if own is not None:
            return own(**arguments)
        match task:
            case "start_idle":
                self._idle = tasks.Idle(self._contestant)
                return None
            case "handled":
                return self._idle.handled if self._idle else 0
            case "end_idle":
                return self._idle.end() if self._idle else []
        shared: Callable[..., Any] = getattr(tasks, task)
        return shared(self._contestant, **arguments)


def load(module: str, url: str, options: dict[str, Any]) -> Contestant:
    """Return the contestant that ``bench.contestants.MODULE`` makes."""
    made: Contestant = importlib.import_module(f"bench.contestants.{module}").make(url, options)
    return made


def main(module: str, url: str, options: str) -> None:
    """Answer until the input ends."""
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    host: Host | None = None
    contestant: Contestant | None = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if host is None:
                contestant = load(module, url, json.loads(options))
                host = Host(contestant)
            answer = {"result": host.run(order["task"], order["arguments"])}
        except BaseException as error:  # noqa: BLE001 - told to the benchmark
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if contestant is not None:
        contestant.close()
    sys.stderr.flush()
    # A peer's threads may never end.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:4])
