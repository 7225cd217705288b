"""What a run has found: figures with their samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["ours", "raw", "peer"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """What is measured.

    Attributes:
        name: Such as ``drain``.
        unit: Such as ``jobs/s``.
        better: Which direction is good.
        baseline: The case that is the raw limit of it, if there is one.
    """

    name: str
    unit: str
    better: Better = "higher"
    baseline: str | None = None


@dataclass
class Figure:
    """One metric of one contestant.

    Attributes:
        scenario: The scenario that found it.
        metric: What was measured.
        case: Whose figure it is.
        kind: Ourselves, the raw limit, or a peer.
        samples: One value a round.
    """

    scenario: str
    metric: Metric
    case: str
    kind: Kind
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the largest of the rounds."""
        return min(self.samples), max(self.samples)


@dataclass
class Curve:
    """How a figure grows with the size of something; sizes span powers of ten.

    Attributes:
        scenario: The scenario that found it.
        title: What was measured.
        size: What grows, such as ``rows beside``.
        unit: The figure's unit.
        series: For each case, for each size, one value a round.
    """

    scenario: str
    title: str
    size: str
    unit: str
    series: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def add(self, case: str, size: int, *values: float) -> None:
        """Note samples of *case* at *size*."""
        self.series.setdefault(case, {}).setdefault(size, []).extend(values)

    @property
    def sizes(self) -> list[int]:
        """All sizes that somebody was measured at."""
        return sorted({size for points in self.series.values() for size in points})

    def medians(self, case: str) -> dict[int, float]:
        """Return the median of *case* at each of its sizes."""
        points = self.series[case]
        return {size: statistics.median(points[size]) for size in sorted(points)}


@dataclass
class Results:
    """All that a run has found.

    Attributes:
        figures: In the order of the scenarios.
        failures: What did not run, and why.
        lines: Series for line plots: a title, and for each case its points.
        curves: Figures that grow with something.
    """

    figures: list[Figure] = field(default_factory=list)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    lines: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)

    def add(self, scenario: str, metric: Metric, case: str, kind: Kind, value: float) -> None:
        """Note one sample."""
        for figure in self.figures:
            if (figure.scenario, figure.metric, figure.case) == (scenario, metric, case):
                figure.samples.append(value)
                return
        self.figures.append(Figure(scenario, metric, case, kind, [value]))

    def curve(self, scenario: str, title: str, size: str, unit: str) -> Curve:
        """Return the curve of this title and unit, a new one when there is none yet."""
        for curve in self.curves:
            if (curve.scenario, curve.title, curve.unit) == (scenario, title, unit):
                return curve
        made = Curve(scenario, title, size, unit)
        self.curves.append(made)
        return made

    def of(self, metric: str) -> dict[str, Figure]:
        """Return the figures of a metric, by case."""
        return {figure.case: figure for figure in self.figures if figure.metric.name == metric}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* (0 to 1) of the values lie, nearest rank."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
