"""A store's own options, typed and resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from alkstore.arguments import (
    Seconds,
    positive_int,
    positive_seconds,
    refuse_unknown,
    true_or_false,
)
from alkstore.codec import DEFAULT_MAX_PAYLOAD_BYTES, Codec, JsonCodec
from alkstore.errors import InvalidOption

DEFAULT_SCHEMA = "alkstore"

_LONGEST_IDENTIFIER = 63
_LARGEST_PAYLOAD = 256 * 1024 * 1024
POOL_NAME: Final = "alkstore"
"""The name of the engine's own pools, as the driver's log shows it."""

_DEFAULT_CODEC = JsonCodec()


class StoreOptions(TypedDict, total=False):
    """What every store takes, over its own pool or a lent one.

    ``None`` counts as not given, as for every option.

    Attributes:
        migrate: Bring the schema up to date first (the default); ``False`` only checks it
            and needs no right to change it.
        codec: Turns payloads into bytes; JSON unless set.
        max_payload_bytes: The largest encoded payload; 1 MiB unless set.
        timeout: How long to wait for a connection of the pool, in seconds; 10 unless set.
        listen_conninfo: Where the listener connects to, for a pool behind a pooler that
            does not carry ``LISTEN``; the same server directly.
    """

    migrate: bool
    codec: Codec
    max_payload_bytes: int
    timeout: Seconds
    listen_conninfo: str | None


class OpenOptions(StoreOptions, total=False):
    """What `open` takes besides: how to build its own pool.

    ``None`` counts as not given, but for ``prepare_threshold``, where it is a value with the
    meaning that psycopg gives it.

    Attributes:
        min_size: Connections that are kept open; 1 unless set.
        max_size: Connections at most; 10 unless set.
        prepare_threshold: After how many runs a statement is prepared on the server; 1
            unless set, ``None`` never (behind a pooler in transaction mode).
    """

    min_size: int
    max_size: int
    prepare_threshold: int | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved `StoreOptions`."""

    schema: str
    migrate: bool
    codec: Codec
    max_payload_bytes: int
    timeout: float
    listen_conninfo: str | None


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Resolved pool options of `open`."""

    min_size: int
    max_size: int
    prepare_threshold: int | None

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the pool."""
        return {
            "kwargs": {"autocommit": True, "prepare_threshold": self.prepare_threshold},
            "min_size": self.min_size,
            "max_size": self.max_size,
            "name": POOL_NAME,
            # A pool that gave up soon asks anew for the next caller; one that goes on with
            # ever longer pauses would miss the end of a long outage by minutes.
            "reconnect_timeout": 5.0,
        }


def resolve_settings(schema: object, options: Mapping[str, Any]) -> Settings:
    """Resolve what both kinds of store take.

    Raises:
        InvalidOption: Something is unknown or impossible.
    """
    refuse_unknown(options, StoreOptions)
    given = {name: value for name, value in options.items() if value is not None}
    codec = given.get("codec", _DEFAULT_CODEC)
    if isinstance(codec, type) or not isinstance(codec, Codec):
        msg = "codec must be an object with encode(value) and decode(bytes)"
        raise InvalidOption(msg)
    listen_conninfo = given.get("listen_conninfo")
    return Settings(
        schema=check_schema(schema),
        migrate=true_or_false(given.get("migrate", True), "migrate"),
        codec=codec,
        max_payload_bytes=positive_int(
            given.get("max_payload_bytes", DEFAULT_MAX_PAYLOAD_BYTES),
            "max_payload_bytes",
            most=_LARGEST_PAYLOAD,
        ),
        timeout=positive_seconds(given.get("timeout", 10.0), "timeout"),
        listen_conninfo=(
            None if listen_conninfo is None else check_conninfo(listen_conninfo, "listen_conninfo")
        ),
    )


def split_pool_settings(options: Mapping[str, Any]) -> tuple[PoolSettings, dict[str, Any]]:
    """Resolve the pool options among *options*; return them and the rest.

    Raises:
        InvalidOption: One is impossible.
    """
    refuse_unknown(options, OpenOptions)
    rest = dict(options)
    min_size, max_size = rest.pop("min_size", None), rest.pop("max_size", None)
    if min_size is None:
        min_size = 1
    if min_size != 0 or isinstance(min_size, bool):
        min_size = positive_int(min_size, "min_size", most=10_000)
    if max_size is None:
        max_size = max(10, min_size)
    max_size = positive_int(max_size, "max_size", most=10_000)
    if min_size > max_size:
        msg = f"min_size is {min_size}, more than max_size, which is {max_size}"
        raise InvalidOption(msg)
    threshold = rest.pop("prepare_threshold", 1)
    if threshold is not None and (threshold != 0 or isinstance(threshold, bool)):
        threshold = positive_int(threshold, "prepare_threshold")
    return PoolSettings(min_size, max_size, threshold), rest


def check_schema(schema: object) -> str:
    """Return a schema name that PostgreSQL takes as it is.

    Raises:
        InvalidOption: It is no text, empty, too long, or reserved.
    """
    if not isinstance(schema, str):
        msg = f"schema must be a str, not a {type(schema).__name__}"
        raise InvalidOption(msg)
    try:
        length = len(schema.encode("utf-8"))
    except UnicodeEncodeError as error:
        msg = "schema holds a lone surrogate"
        raise InvalidOption(msg) from error
    if not 1 <= length <= _LONGEST_IDENTIFIER or "\0" in schema:
        msg = f"schema must have 1 to {_LONGEST_IDENTIFIER} bytes of UTF-8 without NUL"
        raise InvalidOption(msg)
    if schema.startswith("pg_") or schema == "information_schema":
        msg = f"schema {schema!a} belongs to PostgreSQL itself"
        raise InvalidOption(msg)
    return str.__str__(schema)  # of a member of an enum the value, not its name


def check_conninfo(conninfo: object, name: str = "conninfo") -> str:
    """Return a connection string with the settings that a connection of our own needs.

    A broken network is noticed by keepalives within half a minute unless the string says
    otherwise. The client encoding is UTF-8 whatever the string, the environment or the role
    says: names may hold any character.

    Raises:
        InvalidOption: libpq does not understand it. The string is not shown: it may hold
            a password.
    """
    if not isinstance(conninfo, str):
        msg = f"{name} must be a str, not a {type(conninfo).__name__}"
        raise InvalidOption(msg)
    try:
        given = conninfo_to_dict(str.__str__(conninfo))
    except (psycopg.Error, UnicodeError):
        msg = f"{name} is no connection string or URL that libpq understands"
        raise InvalidOption(msg) from None
    if _is_torn(given):
        msg = (
            f"{name} has an impossible host or port; in a URL the characters @ : / ? # and % of a "
            "password are written with a percent sign, such as %40"
        )
        raise InvalidOption(msg)
    defaults = dict(_CONNINFO_DEFAULTS)
    if "PGCONNECT_TIMEOUT" in os.environ:
        del defaults["connect_timeout"]
    return make_conninfo("", **{**defaults, **given, "client_encoding": "UTF8"})


def _is_torn(given: Mapping[str, Any]) -> bool:
    """Return whether a part of a password has become the host or the port of a URL.

    The error of a failed connection would show it.
    """
    hosts = str(given.get("host") or "")
    ports = str(given.get("port") or "0").split(",")
    return "@" in hosts[1:] or not all(port.isdecimal() or port == "" for port in ports)


_CONNINFO_DEFAULTS: dict[str, Any] = {
    "fallback_application_name": "alkstore",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
