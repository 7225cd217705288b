"""The scenarios, in the order in which they run."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from bench import scenarios
from bench.bench import Bench

Run = Callable[[Bench], None]


@dataclass(frozen=True)
class Scenario:
    """Something that is measured.

    Attributes:
        name: For ``--only``.
        title: The heading of its table.
        explains: What its figures mean, for the report.
        run: Measures it.
        full_only: Whether the short run leaves it out, unless it is asked for.
        group: The name under which ``--only`` takes several, if they have one.
    """

    name: str
    title: str
    explains: str
    run: Run
    full_only: bool = False
    group: str | None = None


_all: dict[str, Scenario] = {}


def scenario(
    name: str, title: str, *, full_only: bool = False, group: str | None = None
) -> Callable[[Run], Run]:
    """Register the decorated function; its docstring says what the figures mean."""

    def register(run: Run) -> Run:
        explains = " ".join((run.__doc__ or "").split())
        _all[name] = Scenario(name, title, explains, run, full_only, group)
        return run

    return register


_ORDER = (
    "enqueue",
    "bulk",
    "drain",
    "pickup",
    "notify",
    "idle",
    "lateness",
    "tick",
    "takeover",
    "snapshot",
    "backlog",
    "memory",
    "scale-backlog",
    "scale-workers",
    "scale-schedules",
    "scale-queues",
    "scale-dead",
    "scale-history",
)


def load() -> dict[str, Scenario]:
    """Import every scenario; return them by name, in order."""
    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    known = [name for name in _ORDER if name in _all]
    return {name: _all[name] for name in (*known, *sorted(set(_all) - set(known)))}
