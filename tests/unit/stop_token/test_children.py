"""A child of a stop token is cancelled with its parent (contract section 10)."""

from __future__ import annotations

import gc
import weakref

import pytest

from alkstore import StopToken
from tests.support.stop_tokens import PROMPT, start, until, waiters


def test_a_child_is_cancelled_with_its_parent_and_not_the_other_way() -> None:
    parent = StopToken()
    child, sibling = parent.child(), parent.child()
    grandchild = child.child()
    child.cancel()
    assert child.cancelled
    assert grandchild.cancelled
    assert not parent.cancelled
    assert not sibling.cancelled
    parent.cancel()
    assert sibling.cancelled


def test_a_child_of_a_cancelled_token_is_cancelled() -> None:
    parent = StopToken()
    parent.cancel()
    assert parent.child().cancelled
    assert parent.child().child().wait()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_wait_on_a_grandchild_hears_every_level(level: int) -> None:
    top = StopToken()
    middle = top.child()
    lineage = (top, middle, middle.child())
    heard: list[bool] = []
    thread = start(lambda: heard.append(lineage[2].wait(60)))
    until(lambda: waiters(top) == 1)
    lineage[level].cancel()
    thread.join(PROMPT * 10)
    assert heard == [True]
    assert [waiters(token) for token in lineage] == [0, 0, 0]


def test_a_parent_does_not_keep_its_children_alive() -> None:
    parent = StopToken()
    child = parent.child()
    assert child.wait(0.001) is False
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None
