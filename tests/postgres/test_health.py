"""When a runner is not healthy: one rule for all of them.

The user's story: a liveness probe asks `health()` and ends the process that is not healthy. Until
then the state tells what is wrong; the probe has to leave a process alone whose database is being
restarted, whichever runners it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import alkstore_postgres
from alkstore.runners.status import PATIENCE
from alkstore.runners.supervisor import Supervisor
from alkstore.traits import Runner
from alkstore_postgres.embedded import EmbeddedServer
from alkstore_postgres.scheduler.leader import LeaderLoop
from tests.support.waiting import wait_until

WELL = ["working", "working", "leading", "standby"]


def patient(runners: list[Runner], seconds: float) -> None:
    """Let each of them come to nothing for so long."""
    for one in runners:
        assert isinstance(one, Supervisor)
        one._patience = seconds


@pytest.fixture
def runners(own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Runner]]:
    """Return one of each kind: a worker, a relay, a leader, and a standby of another store."""
    init = LeaderLoop.__init__
    monkeypatch.setattr(init, "__kwdefaults__", {**(init.__kwdefaults__ or {}), "ttl": 2.0})
    with (
        alkstore_postgres.open(own_server.url, timeout=2) as store,
        alkstore_postgres.open(own_server.url, timeout=2) as other,
    ):
        runners: list[Runner] = [
            store.start_worker("emails", lambda _job: None),
            store.start_outbox("events", lambda _job: None),
            store.start_scheduler(),
        ]
        wait_until(lambda: runners[2].state == "leading")
        runners.append(other.start_scheduler())
        wait_until(lambda: [one.state for one in runners] == WELL)
        yield runners


def test_every_runner_tells_of_an_outage_at_once_and_is_ill_when_it_lasts(
    own_server: EmbeddedServer, runners: list[Runner]
) -> None:
    assert {one._patience for one in runners} == {PATIENCE}  # type: ignore[attr-defined]
    own_server.halt("immediate")
    gone = time.monotonic()
    wait_until(lambda: {one.state for one in runners} == {"backing-off"}, 20)
    told = [one.health() for one in runners]
    if time.monotonic() - gone < PATIENCE:
        assert [one.healthy for one in told] == [True] * 4, told
    assert [one.state for one in told] == ["backing-off"] * 4
    patient(runners, 0.5)
    wait_until(lambda: not any(one.health().healthy for one in runners))
    assert all("backing off" in str(one.health().reason) for one in runners)
    own_server.resume()
    wait_until(lambda: {one.state for one in runners[2:]} == {"leading", "standby"}, 20)
    wait_until(lambda: [one.state for one in runners[:2]] == WELL[:2], 20)
    patient(runners, PATIENCE)
    wait_until(lambda: all(one.health().healthy for one in runners))


def test_an_idle_runner_has_good_turns_well_within_the_time(runners: list[Runner]) -> None:
    """A worker looks every 5 s, a leader renews, a standby asks once in a TTL."""
    from alkstore.runners import pool, scheduler
    from alkstore_postgres.queue import claimer
    from alkstore_postgres.scheduler import leader

    longest = (pool._LOOK_UP, claimer._POLL, leader.TTL / 5, leader.TTL + scheduler._JITTER)
    assert max(longest) < PATIENCE / 2
    until = time.monotonic() + 12
    stood_still = 0.0
    while time.monotonic() < until:
        # A turn may be late by as long as the machine did not let anybody here run.
        patient(runners, 7.0 + stood_still)
        health = [one.health() for one in runners]
        assert all(one.healthy for one in health), health
        before = time.monotonic()
        time.sleep(0.2)
        stood_still += time.monotonic() - before - 0.2
