"""The cases: a contestant in one of its variants, under the name that the tables show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Kind


@dataclass(frozen=True)
class Case:
    """A contestant and its variant.

    Attributes:
        name: What the tables call it.
        kind: Ourselves, the raw limit, or a peer.
        module: Its module in `bench.contestants`.
        options: Its variant.
    """

    name: str
    kind: Kind
    module: str
    options: dict[str, Any] = field(default_factory=dict)


def ours(name: str = "alkstore", **options: Any) -> Case:
    """Return ourselves in a variant."""
    return Case(name, "ours", "ours", options)


def raw(name: str = "raw", **options: Any) -> Case:
    """Return the raw limit in a variant."""
    return Case(name, "raw", "raw", options)


PEERS: Sequence[Case] = tuple(
    Case(name, "peer", module)
    for name, module in (
        ("procrastinate", "procrastinate_peer"),
        ("pgqueuer (asyncpg)", "pgqueuer_peer"),
        ("oban", "oban_peer"),
        ("awa-pg", "awa_peer"),
        ("chancy", "chancy_peer"),
        ("dramatiq-postgres", "dramatiq_peer"),
        ("pgtask", "pgtask_peer"),
        ("absurd", "absurd_peer"),
        ("dbos", "dbos_peer"),
        ("django-task-psql", "django_peer"),
        ("python-pq", "pq_peer"),
    )
)
"""The peers, each with the settings of its own documentation."""
