"""Every public docstring says what goes in, what comes out and what is raised."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import alkstore
import alkstore_postgres

Member = Callable[..., Any]


# What is checked at the entry, and so has an error of its own.
CHECKED = {
    *("name", "queue", "outbox", "channel", "channels", "worker_id", "owner", "spec", "schema"),
    *("options", "timeout", "ttl", "stop", "delay", "extend", "limit", "after", "ids"),
    *("older_than", "handles", "at_least", "job_id", "concurrency", "payload", "payloads", "tx"),
    *("conninfo", "pool"),
}


def members() -> Iterator[tuple[str, Member]]:
    for package in (alkstore, alkstore_postgres):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isfunction(found):
                yield f"{package.__name__}.{name}", found
            elif inspect.isclass(found) and getattr(found, "_is_protocol", False):
                for method, function in vars(found).items():
                    if inspect.isfunction(function) and (
                        not method.startswith("_") or method == "__call__"
                    ):
                        yield f"{name}.{method}", function


MEMBERS = dict(members())


def section(doc: str, title: str) -> str:
    match = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", doc + "\n", re.MULTILINE)
    return match[1] if match else ""


def parameters(function: Member) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_walk_finds_the_surface() -> None:
    assert {"Store.enqueue_tx", "Queue.purge", "Outbox.run", "Runner.stop"} <= set(MEMBERS)
    assert {"alkstore_postgres.open", "alkstore.retry_delay", "Listener.wait"} <= set(MEMBERS)


@pytest.mark.parametrize("name", MEMBERS)
def test_every_argument_is_described(name: str) -> None:
    arguments = section(inspect.getdoc(MEMBERS[name]) or "", "Args")
    described = re.findall(r"^    \*{0,2}(\w+): \S", arguments, re.MULTILINE)
    assert described == parameters(MEMBERS[name])


@pytest.mark.parametrize("name", MEMBERS)
def test_what_is_returned_is_described(name: str) -> None:
    function = MEMBERS[name]
    returned = inspect.signature(function).return_annotation
    if returned in ("None", None, "object") or returned is inspect.Signature.empty:
        return
    doc = inspect.getdoc(function) or ""
    summary = doc.partition("\n")[0]
    assert section(doc, "Returns") or re.search(r"\b(yield|return|open) ", summary, re.IGNORECASE)


@pytest.mark.parametrize(
    "name", [name for name in MEMBERS if CHECKED & set(parameters(MEMBERS[name]))]
)
def test_what_is_refused_is_described(name: str) -> None:
    raised = section(inspect.getdoc(MEMBERS[name]) or "", "Raises")
    errors = re.findall(r"^    (\w+): \S", raised, re.MULTILINE)
    assert errors
    assert set(errors) <= {*alkstore.__all__, "ValueError", "TypeError"}


def test_the_details_of_health_are_named() -> None:
    doc = inspect.getdoc(alkstore.RunnerHealth) or ""
    keys = ("failures", "concurrency", "running", "in_hand", "finished", "late", "quarantined")
    assert all(f"``{key}``" in doc for key in keys)
