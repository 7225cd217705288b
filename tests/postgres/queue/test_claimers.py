"""Section 5 of the contract: two claimers never get the same job, and poison ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from alkstore.traits import JobHandle, Queue
from alkstore_postgres import PostgresStore
from tests.support.job_table import JobTable

PROCESS = "tests.support.claiming_process"


@pytest.fixture
def race(store: PostgresStore) -> Queue:
    return store.queue("race")


def start(mode: str, conninfo: str, schema: str, batch: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", PROCESS, mode, conninfo, schema, str(batch)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_processes_that_claim_at_once_share_the_jobs_out(
    race: Queue, conninfo: str, schema: str, batch: int
) -> None:
    ids = race.enqueue_many(range(200 * min(batch, 10)))
    with ExitStack() as stack:
        processes = [stack.enter_context(start("drain", conninfo, schema, batch)) for _ in "abc"]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        outputs = [process.communicate("go\n", timeout=60)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0]
    claimed = [line.split() for output in outputs for line in output.splitlines()]
    assert sorted(int(job) for job, _attempt in claimed) == ids
    assert {attempt for _job, attempt in claimed} == {"1"}
    assert race.size() == 0


@pytest.mark.parametrize("lapsed", [False, True])
def test_threads_that_claim_at_the_same_moment_never_get_the_same_job(
    race: Queue, table: JobTable, lapsed: bool
) -> None:
    """The same holds for lapsed jobs, which every claimer sweeps at once."""
    rounds, threads, jobs = 25, 4, 6
    barrier = threading.Barrier(threads + 1)
    got: list[JobHandle] = []

    def claim() -> None:
        for _ in range(rounds):
            barrier.wait()
            got.extend(race.claim("same name", 3))
            barrier.wait()

    claimers = [threading.Thread(target=claim) for _ in range(threads)]
    for claimer in claimers:
        claimer.start()
    for _ in range(rounds):
        ids = race.enqueue_many(range(jobs))
        if lapsed:
            assert len(race.claim("somebody who dies", jobs)) == jobs
            table.lapse_all()
        got.clear()
        barrier.wait()
        barrier.wait()
        got.extend(race.claim("same name", jobs))  # what was passed over as locked
        assert Counter(handle.id for handle in got) == Counter(ids)
        assert race.ack_many(got) == jobs
    for claimer in claimers:
        claimer.join()


def test_only_one_of_many_takes_a_lapsed_job_from_its_holder(race: Queue, table: JobTable) -> None:
    """Field case B51: ack and claim of a lapsed job race; one of them wins."""
    for _ in range(30):
        race.enqueue(1, max_attempts=9)
        (holder,) = race.claim("w")
        table.lapse(holder.id)
        barrier = threading.Barrier(2)
        acked: list[bool] = []

        def ack(
            holder: JobHandle, barrier: threading.Barrier = barrier, acked: list[bool] = acked
        ) -> None:
            barrier.wait()
            acked.append(holder.ack())

        thread = threading.Thread(target=ack, args=(holder,))
        thread.start()
        barrier.wait()
        taken = race.claim("w")
        thread.join()
        assert acked == [not taken]
        assert race.ack_many(taken) == len(taken)


def test_a_job_that_kills_its_process_is_dead_after_its_budget(
    race: Queue, table: JobTable, conninfo: str, schema: str
) -> None:
    poison = race.enqueue("poison", max_attempts=3)
    for attempt in (1, 2, 3):
        with start("hang", conninfo, schema) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{poison} {attempt}\n"
            process.kill()
        assert race.claim("w") == []  # it is still held
        table.lapse(poison)
    good = race.enqueue("good")
    assert [handle.id for handle in race.claim("w", 10)] == [good]
    (letter,) = race.dead()
    assert (letter.id, letter.error, letter.attempts) == (poison, "max attempts exceeded", 3)
