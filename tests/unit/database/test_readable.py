"""Looking for something to read, on any platform and with any number of open files."""

from __future__ import annotations

import resource
import select
import socket
from collections.abc import Iterator

import pytest

from alkstore_postgres.database.pools import _readable


@pytest.fixture(params=["poll", "select"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "select":
        monkeypatch.delattr(select, "poll")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    yield left, right
    left.close()
    right.close()


@pytest.mark.usefixtures("_way")
def test_silence_bytes_and_the_end_are_told_apart(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    assert not _readable(left.fileno())
    right.send(b"x")
    assert _readable(left.fileno())
    left.recv(1)
    assert not _readable(left.fileno())
    right.close()
    assert _readable(left.fileno())


def test_a_high_number_is_no_problem(pair: tuple[socket.socket, socket.socket]) -> None:
    import fcntl
    import os

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        high = fcntl.fcntl(pair[0].fileno(), fcntl.F_DUPFD, 2000)
        try:
            assert not _readable(high)
            pair[1].send(b"x")
            assert _readable(high)
        finally:
            os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_where_there_is_only_select_a_high_number_is_not_called_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(select, "poll")
    assert not _readable(100_000)
