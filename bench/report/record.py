"""The figures of a run as JSON, and where it was."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from bench.figures import Results
from bench.server import Server


def sync_milliseconds() -> float:
    """Return what one fdatasync of a small write costs where temporary files are."""
    times: list[float] = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(200):
            file.write(b"x" * 8192)
            file.flush()
            began = time.monotonic()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - began)
    return statistics.median(times) * 1e3


def machine(server: Server, *, full: bool) -> str:
    """Describe the machine and the settings that matter, in a paragraph."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    settings = ", ".join(
        f"`{name}` {server.setting(name)}"
        for name in ("fsync", "synchronous_commit", "shared_buffers")
    )
    return (
        f"{'Full' if full else 'Short'} run of {time.strftime('%Y-%m-%d %H:%M')}. "
        f"{os.cpu_count()} cores ({platform.machine()}), PostgreSQL {server.version()} "
        f"({settings}), Python {platform.python_version()}, psycopg {psycopg.__version__}, "
        f"{sync_milliseconds():.2f} ms a fdatasync; load when it began: {load}. "
        "Figures of one machine: only ratios of one run count."
    )


def write(results: Results, machine_text: str, path: Path) -> None:
    """Write everything, all samples included, to *path*."""
    content = {
        "machine": machine_text,
        "figures": [
            {
                "scenario": figure.scenario,
                "metric": figure.metric.name,
                "unit": figure.metric.unit,
                "better": figure.metric.better,
                "baseline": figure.metric.baseline,
                "case": figure.case,
                "kind": figure.kind,
                "median": figure.median,
                "samples": figure.samples,
            }
            for figure in results.figures
        ],
        "lines": results.lines,
        "curves": [
            {
                "scenario": curve.scenario,
                "title": curve.title,
                "size": curve.size,
                "unit": curve.unit,
                "medians": {case: curve.medians(case) for case in curve.series},
                "samples": curve.series,
            }
            for curve in results.curves
        ],
        "failures": results.failures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
