"""Runner threads in real processes: signals, the interpreter's exit, forks, a database that goes.

The user's story: an application starts its runners at boot and forgets about them. However
its process ends, it ends soon and quietly, claims and the lease go back, and while it lives
no thread of it dies.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from alkstore.errors import StoreClosed
from alkstore.names import SCHEDULER_LOCK
from alkstore.stop_token import StopToken
from alkstore.traits import JobHandle, Runner
from alkstore_postgres import PostgresStore
from tests.support.sessions import kill_sessions
from tests.support.waiting import wait_until

EXIT_LIMIT = 1.0
"""How much longer than one without a store a program may take to end, in seconds.

Such a one ends in the same moment: a machine that is busy is busy for both.
"""

SIGNAL_LIMIT = 2.0
"""A second for the end of a process, in seconds, and one for a test machine that is busy."""

CONTROL = """
import sys, threading
import alkstore_postgres
print("done", flush=True)
sys.stdin.readline()
"""

PRELUDE = """
import os, signal, sys, threading, time
import alkstore_postgres
from alkstore import StopToken
store = alkstore_postgres.open(sys.argv[1], sys.argv[2], migrate=False)
queue = store.queue("emails")
def say(*words):
    print(*words, flush=True)
"""


class Program:
    """A real process that runs a script over a store.

    Args:
        script: What it runs.
        conninfo: The server.
        schema: The store's schema.
    """

    def __init__(self, script: str, conninfo: str, schema: str) -> None:
        # Newer Pythons warn of every fork of a process with threads: forking it is the test.
        switches = ["-X", "dev", "-W", "ignore:This process:DeprecationWarning"]
        command = [sys.executable, *switches, "-c", script, conninfo, schema]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out = self._process.stdout
        self._err = self._process.stderr

    def wait_for(self, word: str) -> None:
        """Return when the program has said *word*."""
        line = self._out.readline()
        assert line.strip() == word, line + self._err.read()

    def go_on(self) -> None:
        """Give it the line of input that it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, timeout: float = 10.0) -> tuple[int, str, float]:
        """Wait for the end; return the exit status, all that went to stderr, and how long."""
        began = time.monotonic()
        self._process.wait(timeout)
        took = time.monotonic() - began
        errors = self._err.read()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._out.close()
        self._err.close()
        return self._process.returncode, errors, took

    def kill(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        if not self._out.closed:
            self.end()


@pytest.fixture
def run(conninfo: str, schema: str, store: PostgresStore) -> Iterator[Callable[[str], Program]]:
    """Start programs over the store's schema."""
    programs: list[Program] = []

    def start(script: str) -> Program:
        programs.append(
            Program(script if script is CONTROL else PRELUDE + script, conninfo, schema)
        )
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


# The interpreter's exit.

SCRIPTS = {
    "an enqueue only": "queue.enqueue(1)",
    "an idle worker": "store.start_worker('emails', print)",
    "a scheduler": """
scheduler = store.start_scheduler()
while scheduler.state != "leading": time.sleep(0.01)
""",
    "everything, under load": """
queue.enqueue_many(range(2000))
store.outbox("events").enqueue(1)
scheduler = store.start_scheduler()
store.start_worker("emails", lambda job: None, 4)
store.start_outbox("events", lambda message: None)
time.sleep(0.2)
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize(
    "ending", ["", "store.close()", "sys.exit(0)"], ids=["plain", "closed", "sys.exit"]
)
def test_the_interpreter_exits_soon_and_quietly(
    run: Callable[[str], Program], script: str, ending: str
) -> None:
    """Field case B81."""
    program = run(f"{script}\nsay('done')\nsys.stdin.readline()\n{ending}")
    status, errors, took = end_beside_a_control(program, run(CONTROL))
    assert (status, errors) == (0, "")
    assert took < EXIT_LIMIT


def end_beside_a_control(program: Program, control: Program) -> tuple[int, str, float]:
    """Let both end; return what `Program.end` does, and how much longer *program* took."""
    both = (program, control)
    for one in both:
        one.wait_for("done")
    for one in both:
        one.go_on()
    ends: dict[Program, float] = {}
    while len(ends) < 2:
        for one in both:
            if one not in ends and one.ended:
                ends[one] = time.monotonic()
        time.sleep(0.002)
    status, errors, _ = program.end()
    return status, errors, ends[program] - ends[control]


def test_at_exit_what_runs_is_released_and_the_lease_is_given_back(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field cases B22 and B81."""
    program = run("""
scheduler = store.start_scheduler()
while scheduler.state != "leading": time.sleep(0.01)
started = threading.Event()
def handler(job):
    started.set()
    time.sleep(60)
store.start_worker("emails", handler)
job = queue.enqueue(1)
started.wait()
say("done")
sys.stdin.readline()
""")
    status, errors, took = end_beside_a_control(program, run(CONTROL))
    assert (status, errors) == (0, "")
    assert took < EXIT_LIMIT
    (job,) = store.queue("emails").claim("next")
    assert job.attempt == 1
    began = time.monotonic()
    scheduler = store.start_scheduler()
    wait_until(lambda: scheduler.state == "leading")
    assert time.monotonic() - began < 1


# Signals.

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


def test_runners_that_have_hardly_begun_when_the_program_ends_are_quiet(
    run: Callable[[str], Program],
) -> None:
    """From CPython 3.12 on, no thread can be started any more while the last others end."""
    program = run("""
threading.Thread(target=time.sleep, args=(0.5,)).start()
store.start_worker("emails", print)
store.start_outbox("mails", print)
store.start_scheduler()
""")
    assert program.end()[:2] == (0, "")


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


@pytest.mark.slow
def test_a_handler_that_holds_the_interpreter_for_a_second_at_a_time_keeps_its_claim(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field case B48: no other thread of its process runs for most of the time."""
    program = run("""
import ctypes
sleep = ctypes.PyDLL(None).usleep  # keeps the interpreter's lock
def handler(job):
    say("started")
    for _ in range(13):
        sleep(1_000_000)
    say("finished")
queue = store.queue("emails", visibility_timeout=5)
queue.enqueue(1)
worker = store.start_worker("emails", handler)
while queue.size(): time.sleep(0.05)
store.close()
""")
    program.wait_for("started")
    queue = store.queue("emails")
    stolen: list[JobHandle] = []
    thief = StopToken()

    def steal() -> None:
        while not thief.wait(0.05):
            stolen.extend(queue.claim("thief"))

    stealing = threading.Thread(target=steal)
    stealing.start()
    program.wait_for("finished")
    thief.cancel()
    stealing.join()
    assert stolen == []
    assert program.end()[:2] == (0, "")


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


# Forks.


def test_after_a_fork_runners_stay_with_the_parent_and_say_so(
    run: Callable[[str], Program], store: PostgresStore
) -> None:
    """Field cases B27 and B80."""
    program = run("""
worker = store.start_worker("emails", lambda job: None)
scheduler = store.start_scheduler()
while scheduler.state != "leading": time.sleep(0.01)
child = os.fork()
if child == 0:
    assert worker.state == scheduler.state == "stopped"
    assert "process" in worker.health().reason
    assert worker.stop() and scheduler.join()
    assert store.start_scheduler() is not scheduler
    store.queue("other").enqueue("from the child")
    store.close()
    os._exit(0)
status = os.waitpid(child, 0)[1]
assert scheduler.state == "leading" and worker.state == "working"
queue.enqueue("from the parent")
while queue.size(): time.sleep(0.01)
store.close()
sys.exit(status)
""")
    assert program.end(20)[:2] == (0, "")
    assert store.queue("other").size() == 1


def test_a_handler_may_fork(run: Callable[[str], Program]) -> None:
    program = run("""
def handler(job):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
worker = store.start_worker("emails", handler)
queue.enqueue(1)
while queue.size(): time.sleep(0.01)
assert worker.stop(5)
""")
    status, errors, _ = program.end(20)
    assert (status, errors) == (0, "")


# One process, many starts.


def ours() -> list[str]:
    names = (one.name for one in threading.enumerate())
    return [name for name in names if name.startswith("alkstore ")]


def test_a_hundred_starts_and_stops_leave_no_thread(store: PostgresStore) -> None:
    """Field case B82."""
    queue = store.queue("emails")
    for number in range(100):
        queue.enqueue(number)
        runners: list[Runner] = [
            store.start_worker("emails", lambda _job: None),
            store.start_outbox("events", lambda _message: None),
            store.start_scheduler(),
        ]
        assert [one.stop(5) for one in runners] == [True] * 3
        assert [one.stop(5) for one in runners] == [True] * 3
        assert [one.last_error for one in runners] == [None] * 3
    assert ours() == []


def test_a_scheduler_started_twice_is_the_same_and_starts_anew_after_a_stop(
    store: PostgresStore,
) -> None:
    first = store.start_scheduler()
    assert store.start_scheduler() is first
    assert first.stop(5)
    second = store.start_scheduler()
    assert second is not first
    wait_until(lambda: second.state == "leading")


def test_a_closed_store_stops_every_runner_and_starts_none(
    open_store: Callable[..., PostgresStore],
) -> None:
    store = open_store()
    runners = [
        store.start_worker("emails", lambda _job: None),
        store.start_outbox("events", lambda _message: None),
        store.start_scheduler(),
    ]
    store.close()
    assert [one.state for one in runners] == ["stopped"] * 3
    with pytest.raises(StoreClosed):
        store.start_worker("emails", lambda _job: None)
    assert ours() == []


def test_runners_over_a_pool_that_the_application_closes_say_why_they_end(
    conninfo: str, store: PostgresStore, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract, section 11: a runner never dies silently."""
    del store  # has made the schema
    with ConnectionPool(conninfo, min_size=1, max_size=4, open=True) as pool:
        stores = [PostgresStore(pool, schema) for _ in range(2)]
        schedulers = [one.start_scheduler() for one in stores]
        wait_until(lambda: {one.state for one in schedulers} == {"leading", "standby"})
        runners: list[Runner] = [
            stores[0].start_worker("emails", lambda _job: None),
            stores[0].start_outbox("events", lambda _message: None),
            *schedulers,
        ]
        wait_until(lambda: runners[0].state == runners[1].state == "working")
        caplog.clear()
    for one in stores:  # a standby would ask again some seconds later
        one._parts.hub.wake_here(SCHEDULER_LOCK)
    for runner in runners:
        assert runner.join(15)
        health = runner.health()
        assert (health.state, health.healthy) == ("stopped", False)
        assert "ended by itself: the pool of the store is closed" in str(health.reason)
        assert isinstance(runner.last_error, StoreClosed)
    told = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert sorted(one.split(":")[0] for one in told) == sorted(one.name for one in runners)
    assert "trying again" not in caplog.text
    for one in stores:
        one.close()
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == len(told)


def test_a_standby_takes_over_at_once_when_the_leader_stops(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B22."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    standby = open_store().start_scheduler()
    wait_until(lambda: standby.state == "standby")
    assert standby.health().healthy
    time.sleep(0.2)  # let it park
    assert leader.stop(5)
    wait_until(lambda: standby.state == "leading", 1)


def test_a_standby_that_stops_leaves_the_leader_alone(
    open_store: Callable[..., PostgresStore],
) -> None:
    """Field case B119."""
    leader = open_store().start_scheduler()
    wait_until(lambda: leader.state == "leading")
    store = open_store()
    for _ in range(20):
        standby = store.start_scheduler()
        wait_until(lambda: standby.state == "standby")  # noqa: B023 - called here only
        assert standby.stop(5)
    assert leader.state == "leading"
    assert leader.last_error is None


# The database goes away.


def test_every_runner_survives_the_death_of_its_sessions(
    store: PostgresStore, connection: psycopg.Connection[Any], schema: str
) -> None:
    """Field case B39."""
    got: list[Any] = []

    def take(job: JobHandle) -> None:
        got.append(job.payload)

    runners = [
        store.start_worker("emails", take),
        store.start_outbox("events", take),
        store.start_scheduler(),
    ]
    wait_until(lambda: runners[2].state == "leading")
    for number in range(10):
        kill_sessions(connection, schema)
        with connection.transaction():
            store.enqueue_tx(connection, "emails", f"job {number}")
            store.outbox_enqueue_tx(connection, "events", f"message {number}")
        time.sleep(0.1)
    wanted = {f"{kind} {number}" for kind in ("job", "message") for number in range(10)}
    wait_until(lambda: set(got) >= wanted, 20)
    wait_until(lambda: [one.state for one in runners] == ["working", "working", "leading"])
    assert all(one.health().healthy for one in runners)
