"""The plots of a run; without matplotlib there are none."""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Curve, Figure, Results

_COLOURS = {"ours": "#2a6f97", "raw": "#8d99ae", "peer": "#e09f3e"}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw a bar plot of each metric with several cases, and the line plots.

    Returns:
        The files; none when matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return []
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("Agg")
    made: list[Path] = []
    for metric in dict.fromkeys(figure.metric for figure in results.figures):
        figures = [figure for figure in results.figures if figure.metric == metric]
        if len(figures) > 1:
            made.append(_bars(figures, folder))
    for title, lines in results.lines.items():
        made.append(_lines(title, lines, folder))
    made.extend(_curve(curve, folder) for curve in results.curves)
    return made


def _bars(figures: Sequence[Figure], folder: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    metric = figures[0].metric
    chosen = sorted(figures, key=lambda one: one.median, reverse=metric.better == "lower")
    shown, axes = plt.subplots(figsize=(8, 0.8 + 0.4 * len(chosen)))
    medians = [one.median for one in chosen]
    errors = [
        [one.median - one.spread[0] for one in chosen],
        [one.spread[1] - one.median for one in chosen],
    ]
    colours = [_COLOURS[one.kind] for one in chosen]
    axes.barh([one.case for one in chosen], medians, xerr=errors, color=colours, capsize=3)
    axes.set_xlabel(f"{metric.unit} ({metric.better} is better)")
    axes.set_title(metric.name)
    return _save(plt, shown, folder / f"{_file_name(metric.name)}.png")


def _lines(title: str, lines: dict[str, list[tuple[float, float]]], folder: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown, axes = plt.subplots(figsize=(8, 4))
    for case, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=case)
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend()
    return _save(plt, shown, folder / f"{_file_name(title)}.png")


def _curve(curve: Curve, folder: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    shown, axes = plt.subplots(figsize=(6, 3.4))
    sizes = curve.sizes
    # Zero has no place on a logarithmic axis: a decade before the first size.
    least = min((size for size in sizes if size), default=1)
    for (case, samples), marker in zip(
        curve.series.items(), itertools.cycle("os^Dv"), strict=False
    ):
        places = [size or least / 10 for size in sorted(samples)]
        axes.plot(places, list(curve.medians(case).values()), marker=marker, label=case)
        low = [min(samples[size]) for size in sorted(samples)]
        high = [max(samples[size]) for size in sorted(samples)]
        axes.fill_between(places, low, high, alpha=0.15)
    axes.set_xscale("log")
    axes.set_xticks([size or least / 10 for size in sizes], [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(curve.size)
    axes.set_ylabel(curve.unit)
    axes.set_title(curve.title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return _save(plt, shown, folder / f"{_file_name(f'{curve.title} {curve.unit}')}.png")


def _save(plt: Any, shown: Any, path: Path) -> Path:
    shown.tight_layout()
    shown.savefig(path, dpi=110)
    plt.close(shown)
    return path


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
