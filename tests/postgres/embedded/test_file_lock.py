"""The kernel tells who lives: a lock ends with its process, whatever was forked from it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from alkstore_postgres.embedded.filelock import FileLock, is_locked
from tests.support.embedding import is_alive
from tests.support.processes import Children, Parent


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    lock = FileLock(path)
    assert is_locked(path)
    lock.close()
    lock.close()
    assert not is_locked(path)


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock(path)
    waiting = threading.Thread(target=lambda: FileLock(path).close())
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    lock.close()
    waiting.join(10)
    assert not waiting.is_alive()


def hold_and_fork(parent: Parent, path: str) -> None:
    lock = FileLock(Path(path))
    if os.fork() == 0:
        lock.close()
        parent.say(os.getpid())
    parent.hear()


def test_a_fork_neither_gives_its_parents_lock_back_nor_keeps_it(
    children: Children, tmp_path: Path
) -> None:
    child = children.start(hold_and_fork, str(tmp_path / "lock"))
    fork = child.hear()
    assert is_locked(tmp_path / "lock")
    child.kill()
    assert not is_locked(tmp_path / "lock")
    assert is_alive(fork)  # it hears of the end when the child is closed
