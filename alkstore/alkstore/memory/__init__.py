"""The in-memory engine: the whole `Store` without a server.

For users' tests and for a first look. It is naive on purpose: plain dicts under one lock,
linear scans, a spec reader and a boundary loop of its own. So it is an independent second
reading of the contract, and the two engines are compared with each other.
"""

from __future__ import annotations

from alkstore.memory.clock import Clock, ManualClock, SystemClock
from alkstore.memory.data import MemoryData
from alkstore.memory.settings import MemoryOptions
from alkstore.memory.store import MemoryStore
from alkstore.memory.transaction import MemoryTransaction

__all__ = [
    "Clock",
    "ManualClock",
    "MemoryData",
    "MemoryOptions",
    "MemoryStore",
    "MemoryTransaction",
    "SystemClock",
]
