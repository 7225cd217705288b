"""The pytest plugin is there for those who ask for it, and in nobody's way."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from alkstore.memory import ManualClock, MemoryStore

_WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
import alkstore.testing
assert "alkstore.testing.plugin" not in sys.modules
assert "alkstore.testing.contract" not in sys.modules
"""

_NO_USE_OF_IT = """
import threading

def test_nothing_of_it_is_started():
    assert not [thread for thread in threading.enumerate() if "alkstore" in thread.name]
"""

_A_RUNNER_LEFT_BEHIND = """
from alkstore import StoreClosed
import pytest

left = []

def test_a_runner_is_left_to_itself(alkstore_memory):
    left.append((alkstore_memory, alkstore_memory.start_worker("mail", print)))

def test_it_has_ended_with_its_test_and_so_has_the_store():
    ((store, runner),) = left
    assert runner.state == "stopped"
    with pytest.raises(StoreClosed):
        store.schedules()
"""


def test_the_fixtures_come_with_the_distribution(
    alkstore_memory: MemoryStore, alkstore_clock: ManualClock
) -> None:
    assert alkstore_memory.clock is alkstore_clock
    assert alkstore_memory.queue("mail").peek() == []


def test_each_test_has_a_store_of_its_own(alkstore_memory: MemoryStore) -> None:
    assert alkstore_memory.schedules() == []
    alkstore_memory.schedule("s", "@every 1h", "q", 1)


def test_and_it_is_empty_again(alkstore_memory: MemoryStore) -> None:
    assert alkstore_memory.schedules() == []


def test_it_is_registered() -> None:
    (entry,) = importlib.metadata.entry_points(group="pytest11", name="alkstore")
    assert entry.value == "alkstore.testing.plugin"


def test_without_pytest_the_rest_can_be_imported() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", _WITHOUT_PYTEST], check=True)


_NEEDS_THE_CONTRACT = """
from alkstore.testing.contract.base import wait_until
import pytest

def test_a_failure_tells_its_values():
    import alkstore.testing.contract.locks
    for module in ("base", "locks"):
        loader = type(__import__(f"alkstore.testing.contract.{module}",
                                 fromlist=["x"]).__loader__).__name__
        assert loader == "AssertionRewritingHook", module
"""


def run_alone(directory: Path, program: str) -> str:
    """Run a file of tests in a run of its own, which must pass; return what that says."""
    (directory / "test_own.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("autoload", [True, False])
def test_the_assertions_of_the_contract_tell_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, autoload: bool
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    if not autoload:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    run_alone(tmp_path, _NEEDS_THE_CONTRACT)


def test_a_run_that_does_not_use_it_notices_nothing(tmp_path: Path) -> None:
    assert "1 passed" in run_alone(tmp_path, _NO_USE_OF_IT)


def test_what_a_test_leaves_running_ends_with_it(tmp_path: Path) -> None:
    assert "2 passed" in run_alone(tmp_path, _A_RUNNER_LEFT_BEHIND)
