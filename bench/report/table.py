"""The Markdown table of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.figures import Curve, Figure, Results
from bench.registry import Scenario


def markdown(results: Results, scenarios: Mapping[str, Scenario], machine: str) -> str:
    """Return the report of a run as Markdown.

    Args:
        results: What was found.
        scenarios: What was measured.
        machine: A paragraph about where.
    """
    lines = ["# Benchmark", "", machine, ""]
    for name, scenario in scenarios.items():
        figures = [figure for figure in results.figures if figure.scenario == name]
        curves = [curve for curve in results.curves if curve.scenario == name]
        if figures or curves:
            lines += [f"## {scenario.title}", "", scenario.explains, ""]
        if figures:
            lines += [*_table(figures), ""]
        for curve in curves:
            lines += [*curve_table(curve), ""]
    if results.failures:
        lines += ["## Did not run", ""]
        lines += [f"- {scenario}, {case}: {why}" for scenario, case, why in results.failures]
        lines += [""]
    return "\n".join(lines)


def _table(figures: Sequence[Figure]) -> Iterator[str]:
    peers = any(figure.kind == "peer" for figure in figures)
    raw = any(figure.metric.baseline for figure in figures)
    heads = ["figure", "who", "median", "least to largest", "unit"]
    heads += ["of raw"] * raw + ["of best peer"] * peers
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for metric in dict.fromkeys(figure.metric for figure in figures):
        rows = {figure.case: figure for figure in figures if figure.metric == metric}
        base = rows.get(metric.baseline or "")
        best = _best([row for row in rows.values() if row.kind == "peer"])
        for figure in rows.values():
            low, high = figure.spread
            cells = [
                metric.name,
                figure.case,
                number(figure.median),
                f"{number(low)} to {number(high)}" if len(figure.samples) > 1 else "",
                metric.unit,
            ]
            cells += [ratio(figure, base)] * raw + [ratio(figure, best)] * peers
            yield f"| {' | '.join(cells)} |"


def curve_table(curve: Curve) -> Iterator[str]:
    """Yield the lines of a table of medians: a row for each case, a column for each size."""
    sizes = curve.sizes
    heads = [f"{curve.title} ({curve.unit}), by {curve.size}", *(f"{size:,}" for size in sizes)]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for case in curve.series:
        medians = curve.medians(case)
        cells = [number(medians[size]) if size in medians else "" for size in sizes]
        yield f"| {case} | {' | '.join(cells)} |"


def _best(peers: Sequence[Figure]) -> Figure | None:
    if not peers:
        return None
    pick = max if peers[0].metric.better == "higher" else min
    return pick(peers, key=lambda figure: figure.median)


def ratio(figure: Figure, base: Figure | None) -> str:
    """Return how *figure* compares with *base*, in times."""
    if base is None or not base.median:
        return ""
    times = figure.median / base.median
    return f"{times:.2f}" if times >= 0.1 else f"{times:.2g}"


def number(value: float) -> str:
    """Return a figure with three significant digits, as people write it."""
    if value >= 1_000:
        digits = 3 - len(f"{value:.0f}")
        return f"{round(value, digits):,.0f}"
    if round(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
