"""Web servers that fork: gunicorn and uWSGI as they are run, with runners inside.

The user's story (field cases B27, B45, B80, B90): the store is opened where the application is
imported, some server or other forks, and several processes start the scheduler. Each boundary
fires once, requests enqueue from every process, and the server stops when it is told to.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
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
from tests.support.timing import Stopwatch
from tests.support.waiting import wait_until

BOUNDARIES = 10

GUNICORN = [
    sys.executable,
    "-m",
    "gunicorn",
    "--config=python:tests.frameworks.gunicorn_hooks",
    "--bind=unix:{socket}",
    "tests.frameworks.app:application",
]
UWSGI = [
    str(Path(sys.executable).parent / "uwsgi"),
    "--master",
    "--die-on-term",
    "--http-socket={socket}",
    "--module=tests.frameworks.app:application",
]


@dataclass(frozen=True)
class Kind:
    """One way to run the application.

    Attributes:
        command: What to run; ``{socket}`` stands for where to listen.
        start: When the application starts its runners.
        workers: How many processes answer.
        before: Whether the runners belong to the process that forked the others.
    """

    command: list[str]
    start: str
    workers: int
    before: bool = False


KINDS = {
    "gunicorn": Kind([*GUNICORN, "--workers=2", "--threads=2"], "import", 2),
    "gunicorn preload": Kind([*GUNICORN, "--workers=3", "--preload"], "hook", 3),
    "gunicorn preload, started before the fork": Kind(
        [*GUNICORN, "--workers=2", "--preload"], "import", 2, before=True
    ),
    "gunicorn gevent": Kind([*GUNICORN, "--workers=2", "--worker-class=gevent"], "import", 2),
    "gunicorn gevent preload": Kind(
        [*GUNICORN, "--workers=2", "--worker-class=gevent", "--preload"], "hook", 2
    ),
    "uWSGI": Kind([*UWSGI, "--processes=2"], "hook", 2),
    "uWSGI lazy-apps": Kind(
        [*UWSGI, "--processes=2", "--lazy-apps", "--enable-threads"], "import", 2
    ),
    "uWSGI with fork hooks": Kind(
        [*UWSGI, "--processes=2", "--enable-threads", "--py-call-uwsgi-fork-hooks"], "hook", 2
    ),
}


class Site:
    """One running server, its schema, and what its application does there.

    Args:
        kind: How it is run.
        conninfo: The database.
        schema: The schema of its store.
        folder: Where its socket goes.
        connection: To look at rows with.
    """

    def __init__(
        self,
        name: str,
        conninfo: str,
        schema: str,
        folder: Path,
        connection: psycopg.Connection[Any],
    ) -> None:
        self.kind = KINDS[name]
        self.schema = schema
        self._connection = connection
        self._store = alkstore_postgres.open(conninfo, schema)
        self.first = self._store.schedule("tick", "@every 1s", "ticks", None).next_fire_at
        socket = folder / f"{schema.replace(' ', '-')}.sock"
        self.server = AppServer(
            [word.format(socket=socket) for word in self.kind.command],
            socket,
            {
                "APP_URL": make_conninfo(conninfo, application_name=schema),
                "APP_SCHEMA": schema,
                "APP_START": self.kind.start,
                "APP_SERVER": name,
            },
        )

    @property
    def store(self) -> PostgresStore:
        """A store of the test in the same schema."""
        return self._store

    def fired(self) -> list[Any]:
        """Return the boundaries that have fired; the jobs stay where they are."""
        query = sql.SQL(
            "SELECT scheduled_for FROM {}.jobs WHERE queue = 'ticks' ORDER BY scheduled_for"
        ).format(sql.Identifier(self.schema))
        return [one for (one,) in self._connection.execute(query)]

    def sent(self) -> list[Any]:
        """Take what handlers tell of the jobs that they did."""
        handles = self._store.queue("sent").claim("test", 1000)
        self._store.queue("sent").ack_many(handles)
        return [handle.payload for handle in handles]

    def sessions(self) -> set[int]:
        """Return the server processes that serve the application."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        return {pid for (pid,) in self._connection.execute(query, [self.schema])}

    def leader(self) -> Any:
        """Return who holds the lease of the scheduler."""
        query = sql.SQL("SELECT owner FROM {}.locks WHERE name = '__alkstore_scheduler'")
        row = self._connection.execute(query.format(sql.Identifier(self.schema))).fetchone()
        return row and row[0]

    def close(self) -> None:
        """End it, and drop its schema."""
        self.server.close()
        self._store.close()
        drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema))
        self._connection.execute(drop)


@pytest.fixture(scope="module")
def sites(conninfo: str) -> Iterator[dict[str, Site]]:
    """All servers at once: they share the seconds that the boundaries take."""
    folder = Path(tempfile.mkdtemp(prefix="alk"))
    sites: dict[str, Site] = {}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        try:
            for number, name in enumerate(KINDS):
                schema = f"web {os.getpid()} {number}"
                sites[name] = Site(name, conninfo, schema, folder, connection)
            yield sites
        finally:
            for site in sites.values():
                site.close()
            shutil.rmtree(folder)


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, sites: dict[str, Site]) -> Site:
    """One of the servers."""
    return sites[request.param]


def test_the_store_of_a_child_works_on_its_own_connections(site: Site) -> None:
    answers = site.server.everyone(site.kind.workers)
    assert len({one["session"] for one in answers}) == site.kind.workers
    for one in answers:
        if one["pid"] != one["importer"]:
            assert one["session"] != one["importer session"]
            # The parent's connection was neither used nor closed by the child.
            assert one["importer session"] in site.sessions()


def test_runners_run_where_they_were_started_and_say_so_elsewhere(site: Site) -> None:
    def states() -> list[str]:
        answers = site.server.everyone(site.kind.workers)
        return sorted(one["runners"]["scheduler"]["state"] for one in answers)

    if site.kind.before:
        for one in site.server.everyone(site.kind.workers):
            for runner in one["runners"].values():
                assert runner["state"] == "stopped"
                assert f"process {one['importer']}" in runner["reason"]
    else:
        standing_by = ["standby"] * (site.kind.workers - 1)
        wait_until(lambda: states() == ["leading", *standing_by], 20)
        for one in site.server.everyone(site.kind.workers):
            assert [runner["reason"] for runner in one["runners"].values()] == [None, None]


def test_requests_enqueue_from_every_process_and_the_jobs_run(site: Site) -> None:
    wanted = 8
    for _ in range(wanted):
        site.server.get("/enqueue")
    done: list[Any] = []

    def all_done() -> bool:
        done.extend(site.sent())
        return len(done) >= wanted

    wait_until(all_done, 20)
    answers = site.server.everyone(site.kind.workers)
    here = {one["importer" if site.kind.before else "pid"] for one in answers}
    assert len(done) == wanted
    assert {one["pid"] for one in done} <= here


def test_a_reload_of_gunicorn_loses_no_boundary(sites: dict[str, Site]) -> None:
    site = sites["gunicorn"]
    old = {one["pid"] for one in site.server.everyone(2)}
    site.server.signal(signal.SIGHUP)
    wait_until(lambda: not old & {one["pid"] for one in site.server.everyone(2)}, 20)
    fired = len(site.fired())
    wait_until(lambda: len(site.fired()) > fired, 5)


def test_every_boundary_fires_exactly_once(site: Site) -> None:
    wait_until(lambda: len(site.fired()) >= BOUNDARIES, 30)
    fired = site.fired()
    assert fired[0] == site.first
    assert {after - before for before, after in itertools.pairwise(fired)} == {timedelta(seconds=1)}


def test_it_ends_soon_and_quietly_when_it_is_told_to(site: Site) -> None:
    # No request just before: a uWSGI worker that is busy with one leaves out Python's exit
    # functions, and then the lease lapses instead of being given back.
    wait_until(lambda: site.leader() is not None, 20)
    with Stopwatch() as watch:
        site.server.signal(signal.SIGTERM)
        status = site.server.wait(10)
    output = site.server.output()
    assert status == 0, output
    assert watch.seconds < 4, output
    assert "Traceback" not in output
    assert "Error" not in output, output
    wait_until(lambda: site.sessions() == set(), 5)
    assert site.leader() is None
