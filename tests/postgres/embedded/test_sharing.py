"""Several who ask for one directory at once get one server; it has one owner."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServerError
from tests.support.embedding import Start, ask
from tests.support.processes import Children, Parent


def test_threads_that_start_one_directory_share_one_server(start: Start, folder: Path) -> None:
    barrier = threading.Barrier(4)

    def together() -> embedded.EmbeddedServer:
        barrier.wait()
        return start(folder)

    with ThreadPoolExecutor(4) as executor:
        servers = [one.result() for one in [executor.submit(together) for _ in range(4)]]
    assert sorted(server.shared for server in servers) == [False, True, True, True]
    assert len({server.url for server in servers}) == 1
    for server in servers:
        if server.shared:
            server.stop()
            with pytest.raises(EmbeddedServerError, match="only its owner"):
                server.halt()
    assert ask(servers[0], "SELECT 1") == 1


def join_server(parent: Parent, directory: str, programs: str | None) -> None:
    parent.barrier()
    server = embedded.server(directory, bin_directory=programs)
    parent.say([server.shared, server.url, ask(server, "SELECT 1")])
    parent.hear()
    server.stop()
    parent.say("stopped")
    parent.hear()


def test_processes_share_one_server_until_its_owner_stops_it(
    children: Children, start: Start, used: Path, server_programs: str | None
) -> None:
    started = [children.start(join_server, str(used), server_programs) for _ in range(3)]
    children.release()
    joined = [(child, *child.hear()) for child in started]
    ((owner, _, url, _),) = [one for one in joined if not one[1]]
    sharers = [child for child, shared, *_ in joined if shared]
    assert len(sharers) == 2
    assert {one[2] for one in joined} == {url}
    for sharer in sharers:
        sharer.say("stop")
        assert sharer.hear() == "stopped"
    assert ask(url, "SELECT 1") == 1
    owner.say("stop")
    assert owner.hear() == "stopped"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    assert not start(used).shared


def test_whoever_starts_a_halted_servers_directory_has_it(start: Start, used: Path) -> None:
    first = start(used)
    first.halt()
    second = start(used)
    assert not second.shared
    with pytest.raises(EmbeddedServerError, match="another has started"):
        first.resume()
    first.stop()
    assert start(used).shared
    assert ask(second, "SELECT 1") == 1
