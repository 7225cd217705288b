"""`flask run --debug`: two processes import the application, and one is replaced at each change.

The user's story (field case B26): the store, its scheduler and a worker stand at the top of a
module. Flask's reloader imports that module twice, and starts the serving process anew whenever
a file is saved. Every boundary fires once all the same, and nothing is left behind.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import alkstore_postgres
from alkstore_postgres import PostgresStore
from tests.support.app_server import AppServer
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

SOURCE = Path(__file__).parent / "flask_app.py"
SAVES = 5


class Site:
    """`flask run --debug` over an application of its own.

    Args:
        conninfo: The database.
        guard: Whether the application leaves the reloader's process without runners.
        connection: To look at rows with.
    """

    def __init__(self, conninfo: str, connection: psycopg.Connection[Any], *, guard: bool) -> None:
        self.schema = f"flask {os.getpid()} {guard:d}"
        self.connection = connection
        self.folder = Path(tempfile.mkdtemp(prefix="alk"))
        self.source = self.folder / "site_of_a_test.py"
        shutil.copy(SOURCE, self.source)
        self.store: PostgresStore = alkstore_postgres.open(conninfo, self.schema)
        socket = self.folder / "socket"
        # The reloader that looks at the files; the other one, where it is installed, watches
        # all of the environment, and loses its way when much happens there.
        hidden = self.folder / "hidden" / "watchdog"
        hidden.mkdir(parents=True)
        (hidden / "__init__.py").write_text("raise ImportError\n")
        command = [sys.executable, "-m", "flask", "--app", str(self.source), "run", "--debug"]
        self.server = AppServer(
            [*command, f"--host=unix://{socket}", f"--exclude-patterns={ROOT}/*"],
            socket,
            {
                "PYTHONPATH": f"{hidden.parent}{os.pathsep}{ROOT}",
                "APP_URL": make_conninfo(conninfo, application_name=self.schema),
                "APP_SCHEMA": self.schema,
                "APP_GUARD": "yes" if guard else "",
            },
        )

    def about(self) -> Any:
        """Return what the serving process says of itself."""
        return self.server.get("/")

    def save(self) -> None:
        """Save the application's file; return when another process serves."""
        before = self.about()["pid"]
        self.source.write_text(self.source.read_text() + "\n# saved\n")
        wait_until(lambda: self.about()["pid"] != before, 30)

    def fired(self) -> list[Any]:
        """Return the boundaries that have fired."""
        query = sql.SQL(
            "SELECT scheduled_for FROM {}.jobs WHERE queue = 'ticks' ORDER BY scheduled_for"
        ).format(sql.Identifier(self.schema))
        return [one for (one,) in self.connection.execute(query)]

    def sessions(self) -> set[int]:
        """Return the server processes that serve the application."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        return {pid for (pid,) in self.connection.execute(query, [self.schema])}

    def leases(self) -> list[Any]:
        """Return who holds the scheduler's lease."""
        query = sql.SQL(
            "SELECT owner FROM {}.locks WHERE name = '__alkstore_scheduler' AND owner IS NOT NULL"
        ).format(sql.Identifier(self.schema))
        return self.connection.execute(query).fetchall()

    def close(self) -> None:
        """End it and drop what it made."""
        self.server.close()
        self.store.close()
        drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema))
        self.connection.execute(drop)
        shutil.rmtree(self.folder)


@pytest.fixture(params=[True, False], ids=["guarded", "in both processes"])
def site(
    request: pytest.FixtureRequest, conninfo: str, connection: psycopg.Connection[Any]
) -> Iterator[Site]:
    """A running application."""
    site = Site(conninfo, connection, guard=request.param)
    yield site
    site.close()


@pytest.mark.slow
def test_saving_files_costs_no_boundary_and_leaves_nothing_behind(
    site: Site, request: pytest.FixtureRequest
) -> None:
    guarded = "guarded" in request.node.name
    first = site.about()
    roles = {"leading"} if guarded else {"leading", "standby"}
    wait_until(lambda: site.about()["runners"]["scheduler"] in roles, 20)
    for _ in range(SAVES):
        site.save()
    last = site.about()
    assert last["pid"] != first["pid"]
    wait_until(lambda: site.about()["runners"]["scheduler"] in roles, 20)
    # Two processes, of which one may not have used its store yet: three pooled connections
    # and a listener each, and none of those that were replaced.
    wait_until(lambda: len(site.sessions()) <= 2 * 4, 10)

    site.server.get("/enqueue")
    told: list[Any] = []

    def done() -> bool:
        handles = site.store.queue("sent").claim("test")
        site.store.queue("sent").ack_many(handles)
        told.extend(handle.payload for handle in handles)
        return bool(told)

    wait_until(done, 20)
    if guarded:
        assert [one["pid"] for one in told] == [last["pid"]]

    fired = len(site.fired())
    wait_until(lambda: len(site.fired()) > fired + 2, 20)
    steps = {after - before for before, after in itertools.pairwise(site.fired())}
    assert steps == {timedelta(seconds=1)}

    os.killpg(site.server.pid, signal.SIGINT)  # as Ctrl-C in a terminal
    site.server.wait(10)
    output = site.server.output()
    assert "Traceback" not in output, output
    wait_until(lambda: site.sessions() == set(), 10)
    if guarded:
        assert site.leases() == []
