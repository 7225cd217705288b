"""The command: ``python -m bench --short`` or ``--full``, from the root of the repository."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench import registry
from bench.bench import Bench
from bench.report import plots, record, table
from bench.server import running
from bench.timebox import timebox

_RESULTS = Path(__file__).resolve().parent / "results"


_SHORT_BOX, _FULL_BOX = 120.0, 1_500.0
"""How long one scenario may take, in seconds; what it found by then counts."""


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure alkstore, the raw limit and the peers, side by side.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--short",
        action="store_true",
        help="ourselves and the raw limit, in about two minutes (the default)",
    )
    size.add_argument(
        "--full", action="store_true", help="with the peers, and large sizes; takes a while"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=names,
        help=f"only this scenario or group; may be repeated ({', '.join(names)})",
    )
    parser.add_argument(
        "--url",
        help="a server for a superuser, where databases and roles are made and removed; "
        "without it one is started",
    )
    parser.add_argument(
        "--binaries",
        metavar="FOLDER",
        help="the folder with the programs of the server to start; without it those of "
        "the 'embedded' extra",
    )
    parser.add_argument(
        "--peers-python",
        metavar="PATH",
        default=sys.executable,
        help="the interpreter that bench/requirements-peers.txt was installed for",
    )
    parser.add_argument(
        "--boundaries",
        type=int,
        metavar="NUMBER",
        help="over how many boundaries, one a second, lateness is measured (8, in full 600)",
    )
    parser.add_argument(
        "--results", type=Path, default=_RESULTS, metavar="FOLDER", help="where to write"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    known = registry.load()
    groups = dict.fromkeys(one.group for one in known.values() if one.group is not None)
    asked = _parser([*known, *groups]).parse_args(arguments)
    chosen = {
        name: scenario
        for name, scenario in known.items()
        if (
            {name, scenario.group} & set(asked.only)
            if asked.only
            else asked.full or not scenario.full_only
        )
    }
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also when a shell in the background has it ignored: what was made is removed.
        signal.signal(number, signal.default_int_handler)
    folder: Path = asked.results / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    began = time.monotonic()
    with (
        (folder / "contestants.log").open("w", encoding="utf-8") as log,
        running(asked.url, asked.binaries) as server,
    ):
        bench = Bench(server, asked.full, asked.peers_python, log, asked.boundaries)
        machine = record.machine(server, full=asked.full)
        for name, scenario in chosen.items():
            bench.say(f"{time.monotonic() - began:5.0f} s  {scenario.title}")
            try:
                with timebox(bench.pick(_SHORT_BOX, _FULL_BOX)):
                    scenario.run(bench)
            except KeyboardInterrupt:
                bench.fail(name, "all", "interrupted, with all that come after it")
                break
            except Exception as error:  # noqa: BLE001 - the others still tell something
                bench.fail(name, "all", f"{type(error).__name__}: {error}")
            # Whatever happens to a long run, what it has found so far is there.
            record.write(bench.results, machine, folder / "figures.json")
    report = table.markdown(bench.results, chosen, machine)
    (folder / "table.md").write_text(report, encoding="utf-8")
    record.write(bench.results, machine, folder / "figures.json")
    drawn = plots.draw(bench.results, folder)
    print(report)
    bench.say(f"{time.monotonic() - began:5.0f} s  written to {folder}, {len(drawn)} plots")
    return 1 if any(case in {"all", "alkstore"} for _, case, _ in bench.results.failures) else 0


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
