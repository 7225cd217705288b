"""What the tests of the outbox share."""

from __future__ import annotations

import pytest

from alkstore.traits import Outbox
from alkstore_postgres import PostgresStore
from tests.support.receiver import Receiver


@pytest.fixture
def receiver() -> Receiver:
    """Return a receiver that takes everything."""
    return Receiver()


@pytest.fixture
def outbox(store: PostgresStore) -> Outbox:
    """Return an outbox."""
    return store.outbox("events")
