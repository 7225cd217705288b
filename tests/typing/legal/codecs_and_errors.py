"""Uses of codecs, limits and errors that every type checker must accept. Checked, never run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

import alkstore_postgres
from alkstore import (
    DEFAULT_MAX_PAYLOAD_BYTES,
    MAX_BACKOFF,
    MAX_NAME_BYTES,
    RESERVED_PREFIX,
    AlkstoreError,
    Codec,
    CodecError,
    DatabaseError,
    DecodeError,
    EncodeError,
    InvalidConnection,
    InvalidName,
    InvalidOption,
    InvalidSpec,
    JsonCodec,
    LeadershipLost,
    LockTimeout,
    NoTransaction,
    PayloadTooLarge,
    ReservedName,
    ScheduleQuarantined,
    SchemaError,
    SchemaOutdated,
    SchemaTooNew,
    StoreClosed,
    UnknownSchedule,
    retry_delay,
)
from alkstore.memory import MemoryStore


class RawCodec:
    """A codec needs no base class."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes."""
        return bytes(value)

    def decode(self, raw: bytes) -> Any:
        """Return the value."""
        return raw


def each_engine_takes_a_codec() -> list[Codec]:
    """Its own, or the application's."""
    MemoryStore(codec=RawCodec())
    alkstore_postgres.open("", codec=RawCodec())
    return [RawCodec(), JsonCodec()]


def coding(codec: Codec, json: JsonCodec) -> None:
    """Values become bytes and values again."""
    assert_type(codec.encode({"to": 1}), bytes)
    assert_type(codec.decode(b"{}"), Any)
    assert_type(json.encode([1, None]), bytes)
    assert_type(json.decode(b"[]"), Any)


def limits() -> tuple[int, int, float, str]:
    """Plain numbers and a text; one checker takes constants for literals, one does not."""
    return DEFAULT_MAX_PAYLOAD_BYTES, MAX_NAME_BYTES, MAX_BACKOFF, RESERVED_PREFIX


def the_retry_curve() -> None:
    """A pure function of seconds and a count."""
    assert_type(retry_delay(60, 3), float)
    assert_type(retry_delay(base_backoff=0.5, attempts=1), float)
    assert_type(retry_delay(timedelta(minutes=1), 2), float)


def one_tree() -> list[type[AlkstoreError]]:
    """All errors have one base."""
    return [
        *(CodecError, DatabaseError, DecodeError, EncodeError, InvalidConnection, InvalidName),
        *(InvalidOption, InvalidSpec, LeadershipLost, LockTimeout, NoTransaction),
        *(PayloadTooLarge, ReservedName, ScheduleQuarantined, SchemaError, SchemaOutdated),
        *(SchemaTooNew, StoreClosed, UnknownSchedule),
    ]


def errors_are_what_python_calls_them() -> None:
    """Mistakes in arguments are caught the plain way too."""
    values: list[type[ValueError]] = [
        *(InvalidName, ReservedName, InvalidSpec, InvalidOption, InvalidConnection),
        *(CodecError, EncodeError, DecodeError, PayloadTooLarge),
    ]
    kinds: list[type[TypeError]] = [InvalidConnection]
    keys: list[type[KeyError]] = [UnknownSchedule]
    names: list[type[InvalidName]] = [ReservedName]
    options: list[type[InvalidOption]] = [InvalidConnection]
    codecs: list[type[CodecError]] = [EncodeError, DecodeError]
    schemas: list[type[SchemaError]] = [SchemaOutdated, SchemaTooNew]
    assert values, (kinds, keys, names, options, codecs, schemas)


def what_errors_tell(store: MemoryStore) -> None:
    """Two of them know more than their text."""
    try:
        store.notify("news")
    except DatabaseError as error:
        assert_type(error.sqlstate, str | None)
        assert_type(error.retryable, bool)
    except LeadershipLost as lost:
        assert_type(lost.retry_after, float | None)


def engines_raise_them() -> list[AlkstoreError]:
    """Each is made from its message."""
    return [
        DatabaseError("away", sqlstate="08006", retryable=True),
        DatabaseError("away"),
        LeadershipLost("another leads", retry_after=2.5),
        LeadershipLost("nobody knows", retry_after=None),
        StoreClosed("the store is closed"),
    ]
