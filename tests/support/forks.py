"""Forking on purpose, and hearing what the child has found."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

_LIMIT = 20.0


def in_fork(call: Callable[[], Any], *, orderly: bool = False) -> Any:
    """Run *call* in a forked child; return what it returned (anything that JSON knows).

    Args:
        call: Runs in the child.
        orderly: The child ends as an interpreter does, exit functions included; without,
            at once.

    Raises:
        AssertionError: It raised, hung, or the child ended otherwise; with its traceback.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Since Python 3.12 a fork of a process with threads warns. It is what these tests
        # are about: gunicorn and uWSGI do it, and we have to live with it.
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(call, writer, orderly=orderly)
    os.close(writer)
    return _outcome(pid, reader)


def _be_child(call: Callable[[], Any], writer: int, *, orderly: bool) -> None:
    outcome: dict[str, Any]
    try:
        outcome = {"returned": call()}
    except BaseException:  # noqa: BLE001 - told to the parent
        outcome = {"raised": traceback.format_exc()}
    os.write(writer, json.dumps(outcome).encode())
    os.close(writer)
    if not orderly:
        os._exit(0)
    sys.exit(0)


def _outcome(pid: int, reader: int) -> Any:
    heard = b""
    while True:
        if not select.select([reader], [], [], _LIMIT)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            message = f"the child said nothing for {_LIMIT} s"
            raise AssertionError(message)
        piece = os.read(reader, 65536)
        if not piece:
            break
        heard += piece
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    outcome = json.loads(heard or b'{"raised": "the child said nothing"}')
    assert "raised" not in outcome, outcome["raised"]
    assert status == 0, f"the child ended with {status}"
    return outcome["returned"]
