"""A run: the server, who takes part, and the rounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, TypeVar

from bench.cases import PEERS, Case
from bench.children import Child, ContestantFailed
from bench.figures import Metric, Results
from bench.server import Server

T = TypeVar("T")

Sample = Callable[[Child], Mapping[Metric, float]]
"""Measures one case once."""

PEER_LIMIT = 120.0
"""How long a peer may take for one answer, in seconds: one that hangs drops out."""

PEER_ROUNDS = 2
"""In how many rounds the peers take part, at most: some of them take their time."""


@dataclass
class Bench:
    """What the scenarios measure with.

    Attributes:
        server: The server.
        full: Whether this is the full run.
        peers_python: The interpreter that the peers are installed for.
        log: Where the children's error output goes.
        boundaries: Over how many boundaries lateness is measured, ``None``: as usual.
        results: What was found so far.
    """

    server: Server
    full: bool
    peers_python: str
    log: IO[str]
    boundaries: int | None = None
    results: Results = field(default_factory=Results)

    def pick(self, short: T, full: T) -> T:
        """Return the size for this run."""
        return full if self.full else short

    @property
    def rounds(self) -> int:
        """How many interleaved rounds a rate is measured."""
        return self.pick(3, 5)

    @property
    def peers(self) -> Sequence[Case]:
        """The peers that take part."""
        return PEERS if self.full else ()

    def say(self, text: str) -> None:
        """Tell how the run goes on."""
        print(text, file=sys.stderr, flush=True)

    def fail(self, scenario: str, case: str, error: object) -> None:
        """Note that something did not run."""
        self.say(f"  {case} did not run: {error}")
        self.results.failures.append((scenario, case, str(error)))

    def start(self, case: Case, url: str) -> Child:
        """Start a process of *case* on a database that is set up."""
        peer = case.kind == "peer"
        return Child(
            case.module,
            url,
            case.options,
            self.peers_python if peer else None,
            self.log,
            limit=PEER_LIMIT if peer else 600.0,
            kind=case.kind,
        )

    @contextmanager
    def lend(self, case: Case) -> Iterator[tuple[Child, str]]:
        """Lend a process of *case* on a database of its own that is set up; and its URL."""
        url = self.server.database(case.module)
        with self.start(case, url) as child:
            child.call("setup", limit=60.0)
            yield child, url
        self.server.drop(url)

    def interleave(
        self, scenario: str, cases: Sequence[Case], sample: Sample, rounds: int | None = None
    ) -> None:
        """Measure all *cases* in turns, so that a slow moment of the machine hits them all.

        Args:
            scenario: Whose figures these are.
            cases: Who takes part; who fails drops out and is reported.
            sample: Measures one of them once.
            rounds: How often; ``None``: as usual.
        """
        with ExitStack() as stack:
            children: dict[str, Child] = {}
            for case in cases:
                try:
                    children[case.name], _ = stack.enter_context(self.lend(case))
                except ContestantFailed as error:
                    self.fail(scenario, case.name, error)
            for turn in range((rounds or self.rounds) if cases else 0):
                # Each round begins with another one.
                shift = turn % len(cases)
                for case in (*cases[shift:], *cases[:shift]):
                    rests = case.kind == "peer" and turn >= PEER_ROUNDS
                    if case.name in children and not rests:
                        self._sample(scenario, case, children, sample)

    def _sample(
        self, scenario: str, case: Case, children: dict[str, Child], sample: Sample
    ) -> None:
        self.server.calm()
        try:
            found = sample(children[case.name])
        except ContestantFailed as error:
            children.pop(case.name).kill()
            self.fail(scenario, case.name, error)
            return
        for metric, value in found.items():
            self.results.add(scenario, metric, case.name, case.kind, value)
