"""Signals to a program with runners: what runs may finish, and a second signal ends it at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from alkstore_postgres import PostgresStore
from tests.support.programs import Program

SIGNAL_LIMIT = 2.0
"""A second for the end of a process, in seconds, and one for a test machine that is busy."""

WORKER = """
started = threading.Event()
def handler(job):
    say("started")
    time.sleep(float(job.payload))
    say("finished")
worker = store.start_worker("emails", handler)
stop = StopToken()
stop.on_signals()
store.queue("emails", visibility_timeout=1).enqueue(SECONDS, max_attempts=1)
stop.wait()
ended = worker.stop(GRACE)
store.close()
sys.exit(0 if ended else 3)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_finish(
    run: Callable[[str], Program], store: PostgresStore, number: signal.Signals
) -> None:
    """Field cases B52 and B88."""
    program = run(WORKER.replace("SECONDS", "1").replace("GRACE", "10"))
    program.wait_for("started")
    program.signal(number)
    program.wait_for("finished")
    assert program.end()[:2] == (0, "")
    assert store.queue("emails").size() == 0


def test_a_job_that_outlasts_the_grace_is_released(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field case B88: the attempt is given back although it was the last one."""
    program = run(WORKER.replace("SECONDS", "60").replace("GRACE", "0.3"))
    program.wait_for("started")
    program.signal(signal.SIGTERM)
    status, errors, took = program.end()
    assert (status, errors) == (3, "")
    assert took < 2
    (job,) = store.queue("emails").claim("next")
    assert job.attempt == 1


def test_a_second_signal_ends_the_program_at_once(run: Callable[[str], Program]) -> None:
    """Field case B88."""
    program = run(WORKER.replace("SECONDS", "60").replace("GRACE", "60"))
    program.wait_for("started")
    program.signal(signal.SIGTERM)
    time.sleep(0.3)
    program.signal(signal.SIGTERM)
    status, _, took = program.end()
    assert status == -signal.SIGTERM
    assert took < SIGNAL_LIMIT


def test_ctrl_c_without_any_preparation_ends_the_program(run: Callable[[str], Program]) -> None:
    """Field case B81."""
    program = run("""
store.start_worker("emails", print)
store.start_scheduler()
try:
    say("ready")
    while True: time.sleep(0.1)
except KeyboardInterrupt:
    say("interrupted")
""")
    program.wait_for("ready")
    program.signal(signal.SIGINT)
    program.wait_for("interrupted")
    status, errors, took = program.end()
    assert (status, errors) == (0, "")
    assert took < SIGNAL_LIMIT


def test_a_killed_worker_s_job_comes_back_with_another_attempt(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field cases B46 and B47."""
    program = run(WORKER.replace("SECONDS", "60").replace("max_attempts=1", "max_attempts=3"))
    program.wait_for("started")
    program.signal(signal.SIGKILL)
    program.end()
    (job,) = store.queue("emails").claim_wait("next", timeout=5)
    assert job.attempt == 2


STARTING = """
import faulthandler
start, sent = threading.Thread.start, []
def close(*_):
    faulthandler.dump_traceback_later(LATE)  # what it waits for, when it takes far too long
    store.close()
    sys.exit(0)
signal.signal(signal.SIGTERM, close)
def starting(self):
    start(self)
    if self.name.endswith("PART") and not sent:
        sent.append(1)
        say("started")
        signal.raise_signal(signal.SIGTERM)
threading.Thread.start = starting
store.start_worker("emails", print)
say("not reached")
"""


@pytest.mark.parametrize("part", ["settlement", "heartbeats", "claims"])
def test_a_program_whose_signal_handler_closes_the_store_ends_while_it_starts_a_worker(
    run: Callable[[str], Program], store: PostgresStore, part: str
) -> None:
    """Field case B88: it comes in the middle of the start, in the same thread."""
    job = store.queue("emails", visibility_timeout=3600).enqueue(1)
    # Wall-clock time, a busy machine's as well, while the limit is for what the program takes.
    program = run(STARTING.replace("PART", part).replace("LATE", str(4 * SIGNAL_LIMIT)))
    program.wait_for("started")
    status, errors, took = program.end()
    assert (status, errors) == (0, "")
    assert took < SIGNAL_LIMIT
    row = store.get_job(job)
    assert row is None or (row.state, row.attempts) == ("pending", 0)
