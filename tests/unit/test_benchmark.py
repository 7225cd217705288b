"""The benchmark tells what it found, what failed, and ends in time."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast

import pytest

from bench import registry
from bench.bench import Bench
from bench.cases import PEERS, Case
from bench.contestants import tasks
from bench.contestants.base import Contestant, Enqueue, Handle, override
from bench.figures import Metric, Results
from bench.report import plots, record, table
from bench.scenarios import pickup
from bench.server import Server
from bench.timebox import Budget, TimeIsUp, timebox
from tests.support.timing import in_time

_RATE = Metric("drain", "jobs/s", baseline="raw")


def _nothing(_bench: Bench) -> None:
    """Measure nothing."""


_SCENARIO = registry.Scenario("drain", "Drain", "What it means.", _nothing)


def _found() -> Results:
    results = Results()
    for value in (90.0, 100.0, 140.0):
        results.add("drain", _RATE, "alkstore", "ours", value)
    results.add("drain", _RATE, "raw", "raw", 200.0)
    results.add("drain", _RATE, "slow", "peer", 10.0)
    results.add("drain", _RATE, "quick", "peer", 50.0)
    return results


def test_a_row_has_median_spread_and_ratios_to_raw_and_to_the_best_peer() -> None:
    text = table.markdown(_found(), {"drain": _SCENARIO}, "A machine.")
    assert "| drain | alkstore | 100 | 90 to 140 | jobs/s | 0.50 | 2.00 |" in text


def test_the_best_peer_of_what_is_better_low_is_the_lowest() -> None:
    results = Results()
    delay = Metric("pick-up", "ms", "lower")
    for case, kind, value in (("alkstore", "ours", 3.0), ("a", "peer", 6.0), ("b", "peer", 12.0)):
        results.add("drain", delay, case, kind, value)  # type: ignore[arg-type]
    text = table.markdown(results, {"drain": _SCENARIO}, "")
    assert "| pick-up | alkstore | 3 |  | ms | 0.50 |" in text


def test_a_curve_is_a_table_of_medians_with_a_gap_where_nothing_was_measured() -> None:
    results = Results()
    curve = results.curve("drain", "A claim", "rows", "pages")
    curve.add("waiting", 0, 20.0)
    curve.add("waiting", 1_000_000, 24.0, 26.0)
    curve.add("dead", 0, 21.0)
    text = table.markdown(results, {"drain": _SCENARIO}, "")
    assert "| A claim (pages), by rows | 0 | 1,000,000 |" in text
    assert "| waiting | 20 | 25 |" in text
    assert "| dead | 21 |  |" in text


def test_the_json_holds_every_sample(tmp_path: Path) -> None:
    results = _found()
    results.curve("drain", "A claim", "rows", "pages").add("waiting", 10, 1.0, 2.0)
    record.write(results, "A machine.", tmp_path / "figures.json")
    found = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert found["figures"][0]["samples"] == [90.0, 100.0, 140.0]
    assert found["curves"][0]["samples"] == {"waiting": {"10": [1.0, 2.0]}}
    assert found["curves"][0]["medians"] == {"waiting": {"10": 1.5}}


def test_each_metric_and_each_curve_is_a_plot(tmp_path: Path) -> None:
    results = _found()
    curve = results.curve("drain", "A claim", "rows", "pages")
    curve.add("waiting", 0, 20.0)
    curve.add("waiting", 10_000, 20.0)
    assert [one.name for one in plots.draw(results, tmp_path)] == [
        "drain.png",
        "a-claim-pages.png",
    ]


class _NoServer:
    """Hands out databases that nobody connects to."""

    def database(self, name: str) -> str:
        return f"postgresql://localhost/{name}"

    def calm(self) -> None:
        pass


def test_a_peer_that_cannot_start_is_reported_and_stops_nobody() -> None:
    bench = Bench(cast("Server", _NoServer()), True, "/there/is/no/python", io.StringIO())
    peers = [Case(name, "peer", "oban_peer") for name in ("one", "other")]
    bench.interleave("drain", peers, lambda _child: {_RATE: 1.0})
    assert [case for _, case, _ in bench.results.failures] == ["one", "other"]
    assert not bench.results.figures


def test_peers_wait_for_one_round_of_pick_up_only(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def delays(_bench: Bench, case: Case, count: int) -> dict[str, list[float]]:
        turns.append(case.kind)
        return {"pick-up": [1.0] * count}

    monkeypatch.setattr(pickup, "_delays", delays)
    bench = Bench(cast("Server", _NoServer()), True, "", io.StringIO())
    pickup.run(bench)
    assert turns.count("ours") == 3
    # Claims that do not wait for the disk, as ours; such that do; and a thread that listens.
    assert turns.count("raw") == 3 * 3
    assert turns.count("peer") == len(PEERS) > 0
    assert not bench.results.failures


class _Slow(Contestant):
    """Keeps its jobs in memory; each takes it a while to store."""

    def __init__(self) -> None:
        super().__init__("", {})
        self.stored: list[int] = []

    @override
    def setup(self) -> None:
        """Make nothing."""

    @override
    def client(self) -> AbstractContextManager[Enqueue]:
        """Store one."""
        return nullcontext(self.stored.append)

    @override
    def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Store many, at about 2,500 a second."""
        threading.Event().wait(len(numbers) / 2_500)
        self.stored.extend(numbers)

    @override
    def work(self, handle: Handle, stop: threading.Event) -> None:
        """Handle all."""
        for number in self.stored:
            handle(number)
        self.stored.clear()
        stop.wait()


def test_a_peer_drains_what_it_could_store_in_time() -> None:
    slow = _Slow()
    found = tasks.drain(slow, count=10_000, fill=10_000, patience=0.15)
    assert 0 < found["jobs"] < 10_000
    assert found["jobs"] % 1_000 == found["left"] == 0
    assert not slow.stored


def test_a_drain_that_stalls_ends_with_its_last_job() -> None:

    def stall() -> float:
        slow = _Slow()
        slow.stored = [1, 2, 3]
        found = tasks.drain(slow, count=5, patience=0.5)
        assert (found["jobs"], found["left"]) == (3, 2)
        took: float = found["from_first"]
        return took

    in_time(stall, 0.1)


def test_without_patience_all_jobs_are_stored_and_done() -> None:
    found = tasks.drain(_Slow(), count=500, fill=500)
    assert (found["jobs"], found["left"]) == (500, 0)


def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeIsUp, match=r"0\.01 s"), timebox(0.01):
        threading.Event().wait()


def test_a_budget_is_asked_before_something_long_begins() -> None:
    assert Budget(60.0).allows(30.0)
    assert not Budget(60.0).allows(90.0)


def test_scale_is_a_group_that_the_short_run_leaves_out() -> None:
    group = [one for one in registry.load().values() if one.group == "scale"]
    assert len(group) == 6
    assert all(one.full_only and one.explains for one in group)
