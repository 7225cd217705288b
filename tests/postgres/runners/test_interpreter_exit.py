"""The interpreter's exit, with runners at whatever they are.

The user's story: an application starts its runners at boot and forgets about them. However
its process ends, it ends soon and quietly, claims and the lease go back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from alkstore_postgres import PostgresStore
from tests.support.programs import CONTROL, Program
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

EXIT_LIMIT = 1.0
"""How much longer than one without a store a program may take to end, in seconds.

Such a one ends in the same moment: a machine that is busy is busy for both.
"""

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
    with Stopwatch() as starting:
        scheduler = store.start_scheduler()
        wait_until(lambda: scheduler.state == "leading")
    assert starting.seconds < 1


def test_runners_that_have_hardly_begun_when_the_program_ends_are_quiet(
    run: Callable[[str], Program],
) -> None:
    """From CPython 3.12 on, no thread can be started any more while the last others end."""
    program = run("""
threading.Thread(target=time.sleep, args=(0.5,)).start()
store.start_worker("emails", print)
store.start_outbox("mails", print)
store.start_scheduler()
say("done")
""")
    program.wait_for("done")  # the time to end is not the time to begin
    assert program.end()[:2] == (0, "")
