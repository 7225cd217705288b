"""For tests: of applications that use a store, and of engines.

This package itself needs nothing beside alkstore; `alkstore.testing.contract` and
`alkstore.testing.plugin` need pytest.
"""

from __future__ import annotations

from alkstore.testing.harness import DamagesSchedules, EngineHarness

__all__ = ["DamagesSchedules", "EngineHarness"]
