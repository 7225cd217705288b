"""The files of legal uses, which the type checkers read, leave nothing public out."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import is_typeddict

import pytest

from alkstore import Codec, JsonCodec, Runner, Store
from alkstore.memory import Clock, ManualClock, MemoryStore, SystemClock
from alkstore.runners import Supervisor
from alkstore.testing.contract import Contract
from alkstore_postgres import PostgresStore
from tests.support.uses import Uses

FOLDER = Path(__file__).parents[1] / "typing" / "legal"
PACKAGES = [
    "alkstore",
    "alkstore.memory",
    "alkstore.runners",
    "alkstore.testing",
    "alkstore.testing.contract",
    "alkstore_postgres",
    "alkstore_postgres.embedded",
]

# Nothing is inherited of a protocol: what is used of that counts for these too.
STANDS_FOR = {
    MemoryStore: Store,
    PostgresStore: Store,
    JsonCodec: Codec,
    ManualClock: Clock,
    SystemClock: Clock,
    Supervisor: Runner,
}

HOOKS = {"after_fork"}
"""What the interpreter has called, and no application."""


def used() -> Uses:
    uses = Uses()
    for file in FOLDER.glob("*.py"):
        uses.read(file.read_text("utf-8"))
    return uses


USED = used()


def family(cls: type) -> list[type]:
    """The class with all of ours that it inherits from, or has the members of."""
    own = [one for one in cls.__mro__ if one.__module__.startswith("alkstore")]
    return own + [base for one in own if one in STANDS_FOR for base in STANDS_FOR[one].__mro__]


def set_at_the_beginning(cls: type) -> Iterator[str]:
    """What ``__init__`` makes."""
    begin = vars(cls).get("__init__")
    if not inspect.isfunction(begin) or begin.__module__ != cls.__module__:
        return
    if begin.__code__.co_filename.startswith("<"):  # made by a decorator
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(begin)))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def members(cls: type) -> set[str]:
    if is_typeddict(cls):
        return {*vars(cls)["__required_keys__"], *vars(cls)["__optional_keys__"]}
    own = [one for one in cls.__mro__ if one.__module__.startswith("alkstore")]
    found = {name for one in own for name in (*vars(one), *set_at_the_beginning(one))}
    return {name for name in found if not name.startswith("_")} - HOOKS


def classes() -> list[type]:
    public = {
        getattr(package, name)
        for package in map(import_module, PACKAGES)
        for name in package.__all__
    }
    # The members of the suite's parts are its tests.
    found = [one for one in public if inspect.isclass(one) and not issubclass(one, Contract)]
    return sorted(found, key=lambda cls: cls.__qualname__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_used(package: str) -> None:
    names = set(import_module(package).__all__)
    assert names - {name for module, name in USED.names if module == package} == set()


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__qualname__)
def test_every_public_member_is_used(cls: type) -> None:
    kinds = {one.__name__ for one in family(cls)}
    assert members(cls) - {member for kind, member in USED.members if kind in kinds} == set()


def test_the_members_are_all_that_there_are() -> None:
    found = {cls.__qualname__: members(cls) for cls in classes()}
    assert {"ack_many", "heartbeat_many", "cancel", "size", "name"} <= found["Queue"]
    assert {"payload", "raw", "stored", "claim_expires_at"} <= found["Job"]
    assert found["QueueOptions"] == {"visibility_timeout", "max_attempts", "base_backoff"}
    assert {"min_size", "migrate", "listen_conninfo"} <= found["OpenOptions"]
    assert found["LeadershipLost"] == {"retry_after"}
    assert {"directory", "port", "shared", "url"} <= found["EmbeddedServer"]
    assert {"sibling", "tick", "queue", "schedule"} <= found["MemoryStore"]


def test_what_is_used_is_read_from_the_text() -> None:
    uses = Uses()
    uses.read(
        "import one\n"
        "from two import Queue, three\n"
        "def use(queue: Queue, other):\n"
        "    queue.size(); other.peek(); one.open; three.server\n"
        "    how: Options = {'delay': 5}\n"
        "    try: ...\n"
        "    except Lost as lost: lost.after\n"
        "def again(queue): queue.claim\n"
    )
    assert uses.names == {
        *(("two", "Queue"), ("two", "three"), ("one", "open"), ("two.three", "server")),
    }
    assert uses.members == {("Queue", "size"), ("Options", "delay"), ("Lost", "after")}
