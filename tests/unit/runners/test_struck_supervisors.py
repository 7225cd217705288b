"""What is set in a runner's thread from outside, just while that deals with something else."""

from __future__ import annotations

import ctypes
import threading

import pytest

from alkstore.runners import status, supervisor
from tests.support.waiting import wait_until
from tests.unit.runners.test_supervisor import Plain


@pytest.mark.parametrize("error", [TimeoutError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["log", "rest"])
def test_what_is_set_from_outside_while_a_failure_is_dealt_with_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    place: str,
) -> None:
    """Field case B08: a time limit of an application that comes late, and another one."""
    due = ["one"]

    def strike(*_: object, **__: object) -> float:
        if due and threading.current_thread().name.startswith("alkstore plain"):
            due.clear()
            thread = ctypes.c_ulong(threading.get_ident())
            kind = ctypes.py_object(error)
            assert ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, kind) == 1
        return 0.01

    def body(self: Plain) -> None:
        if self.turns == 1:
            raise KeyError("the first")
        self.idle()

    one = Plain(body)
    if place == "rest":
        monkeypatch.setattr(supervisor, "pause", strike)
    else:
        monkeypatch.setattr(status, "say", strike)
    one.start()
    wait_until(lambda: one.state == "working")
    assert one.turns == 2
    assert isinstance(one.last_error, error)
    assert one.health().healthy
    assert one.stop(5)
