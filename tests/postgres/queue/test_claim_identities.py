"""The identity of a claim: no two calls share one, in no process."""

from __future__ import annotations

import os

import pytest

from alkstore._typing import override
from alkstore.stop_token import Parker
from alkstore_postgres import PostgresStore
from alkstore_postgres.queue import claimer
from alkstore_postgres.queue.handle import PostgresJobHandle
from tests.support.waiting import wait_until


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_goes_on_with_the_wait_claims_as_somebody_else(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler may fork in a wait, or a greenlet while another one waits."""
    queue = store.queue("q")
    reader, writer = os.pipe()
    children: list[int] = []

    class Forking(Parker):
        @override
        def park(self, timeout: float | None = None) -> bool:
            if not children:
                children.append(os.fork())
                if children == [0]:
                    wait_until(lambda: queue.size() == 2)
                else:
                    queue.enqueue_many([1, 2])
            return super().park(min(timeout or 0.0, 0.01))

    monkeypatch.setattr(claimer, "Parker", Forking)
    try:
        (handle,) = queue.claim_wait("w", timeout=20)
        assert isinstance(handle, PostgresJobHandle)
        identity = handle.claim[1]
        if children == [0]:
            os.write(writer, identity)
    finally:
        if children == [0]:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert len(other := told.read()) == 16
    assert other != identity
    os.waitpid(children[0], 0)
