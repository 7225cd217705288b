"""A store's own options: what is refused, before anything is connected."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

import alkstore
import alkstore_postgres
from alkstore_postgres.settings import (
    OpenOptions,
    check_conninfo,
    resolve_settings,
    split_pool_settings,
)

NOWHERE = "host=127.0.0.1 port=1 password=hush-hush"

BAD: list[dict[str, Any]] = [
    {"colour": "red"},
    {"migrate": 1},
    {"codec": Ellipsis},
    {"codec": alkstore.JsonCodec},
    {"max_payload_bytes": 0},
    {"max_payload_bytes": 2**40},
    {"max_payload_bytes": True},
    {"timeout": 0},
    {"timeout": -1},
    {"timeout": "soon"},
    {"timeout": float("nan")},
    {"listen_conninfo": 7},
    {"listen_conninfo": "no such=thing hush"},
    {"min_size": -1},
    {"min_size": 5, "max_size": 4},
    {"max_size": 0},
    {"max_size": 10**9},
    {"prepare_threshold": -1},
    {"prepare_threshold": True},
]


@pytest.mark.parametrize("options", BAD, ids=repr)
def test_an_impossible_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(alkstore.InvalidOption, match=next(reversed(options))) as caught:
        alkstore_postgres.open(NOWHERE, **options)
    assert "hush" not in str(caught.value)


TORN = [
    "postgresql://user:hush@hush@host/db",
    "postgresql://user:hush/hush@host/db",
    "postgresql://user:hu%sh@host/db",
    "host=h port=hush",
    "password=hush hush",
    "dbname='hush",
    "\ud800hush",
]


@pytest.mark.parametrize("conninfo", [*TORN, 7, None, b"host=h"], ids=ascii)
def test_a_connection_string_that_cannot_be_right_is_refused_unseen(conninfo: Any) -> None:
    for call in (alkstore_postgres.open, alkstore_postgres.migrate):
        with pytest.raises(alkstore.InvalidOption, match="conninfo") as caught:
            call(conninfo)
        assert "hush" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_the_string_leaves_open_lets_a_dead_connection_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    found = conninfo_to_dict(check_conninfo("postgresql://u:p%40ss@h1:1,h2:2/db"))
    assert (found["host"], found["port"], found["password"]) == ("h1,h2", "1,2", "p@ss")
    assert (found["connect_timeout"], found["keepalives_idle"]) == ("10", "10")
    found = conninfo_to_dict(check_conninfo("connect_timeout=3 keepalives_idle=77"))
    assert (found["connect_timeout"], found["keepalives_idle"]) == ("3", "77")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    assert "connect_timeout" not in conninfo_to_dict(check_conninfo("host=h"))


def test_a_server_that_cannot_be_reached_is_told_without_the_password() -> None:
    for call in (alkstore_postgres.open, alkstore_postgres.migrate):
        with pytest.raises(alkstore.DatabaseError) as caught:
            call(NOWHERE)
        assert caught.value.retryable
        assert "hush" not in str(caught.value)


def test_none_counts_as_not_given() -> None:
    nothing: dict[str, Any] = dict.fromkeys(OpenOptions.__annotations__)
    sizes, rest = split_pool_settings(nothing)
    assert (sizes.min_size, sizes.max_size) == (1, 10)
    assert resolve_settings("s", rest) == resolve_settings("s", {})
    assert split_pool_settings({"min_size": 20, "max_size": None})[0].max_size == 20


def test_of_the_prepare_threshold_none_is_a_value_as_it_is_for_the_driver() -> None:
    assert split_pool_settings({})[0].prepare_threshold == 1
    assert split_pool_settings({"prepare_threshold": None})[0].prepare_threshold is None
