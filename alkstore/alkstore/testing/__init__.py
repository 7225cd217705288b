"""For tests: of applications that use a store, and of engines.

An application's tests look into queues with `assert_enqueued` and its like, run a queue in
place with `drain`, and step time with `fire_due`. An engine's author subclasses the classes of
`alkstore.testing.contract` with an `EngineHarness`.

This package itself needs nothing beside alkstore; `alkstore.testing.contract` and
`alkstore.testing.plugin` need pytest.
"""

from __future__ import annotations

import sys

from alkstore.testing.assertions import (
    assert_dead,
    assert_enqueued,
    assert_not_enqueued,
    assert_scheduled,
)
from alkstore.testing.drain import Drained, Ran, deliver_all, drain
from alkstore.testing.harness import DamagesSchedules, EngineHarness, HandlesLeases
from alkstore.testing.stepping import fire_due

__all__ = [
    "DamagesSchedules",
    "Drained",
    "EngineHarness",
    "HandlesLeases",
    "Ran",
    "assert_dead",
    "assert_enqueued",
    "assert_not_enqueued",
    "assert_scheduled",
    "deliver_all",
    "drain",
    "fire_due",
]

if sys.modules.get("pytest") is not None:
    # Before anything of the package is imported, and also when the plugin is not loaded: the
    # suite's failures tell their values.
    sys.modules["pytest"].register_assert_rewrite("alkstore.testing.contract")
