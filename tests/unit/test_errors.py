"""The error tree (contract section 13)."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import alkstore
from alkstore import (
    AlkstoreError,
    CodecError,
    DatabaseError,
    DecodeError,
    EncodeError,
    InvalidConnection,
    InvalidName,
    InvalidOption,
    InvalidSpec,
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
    errors,
)

TREE: dict[type[AlkstoreError], type[Exception]] = {
    InvalidName: AlkstoreError,
    ReservedName: InvalidName,
    InvalidSpec: AlkstoreError,
    InvalidOption: AlkstoreError,
    InvalidConnection: InvalidOption,
    CodecError: AlkstoreError,
    EncodeError: CodecError,
    DecodeError: CodecError,
    PayloadTooLarge: AlkstoreError,
    LeadershipLost: AlkstoreError,
    LockTimeout: AlkstoreError,
    UnknownSchedule: AlkstoreError,
    ScheduleQuarantined: AlkstoreError,
    NoTransaction: AlkstoreError,
    StoreClosed: AlkstoreError,
    SchemaError: AlkstoreError,
    SchemaOutdated: SchemaError,
    SchemaTooNew: SchemaError,
    DatabaseError: AlkstoreError,
}
ABOUT_ARGUMENTS = {
    InvalidName,
    ReservedName,
    InvalidSpec,
    InvalidOption,
    InvalidConnection,
    CodecError,
    EncodeError,
    DecodeError,
    PayloadTooLarge,
}
EXAMPLES: list[AlkstoreError] = [
    *(kind("what was given, what is allowed") for kind in TREE),
    LeadershipLost("another runner leads", retry_after=7.5),
    DatabaseError("the connection was lost", sqlstate="57P01", retryable=True),
]


def test_the_tree_is_the_one_of_the_contract() -> None:
    defined = {
        member
        for member in vars(errors).values()
        if inspect.isclass(member) and member.__module__ == errors.__name__
    }
    assert defined == {AlkstoreError, *TREE}
    for kind, parent in TREE.items():
        assert kind.__bases__[0] is parent
    assert AlkstoreError.__bases__ == (Exception,)


def test_errors_about_arguments_are_value_errors_and_no_others_are() -> None:
    assert {kind for kind in TREE if issubclass(kind, ValueError)} == ABOUT_ARGUMENTS


def test_every_error_is_public_and_says_what_it_means() -> None:
    kinds: list[type[AlkstoreError]] = [AlkstoreError, *TREE]
    for kind in kinds:
        assert getattr(alkstore, kind.__name__) is kind
        assert kind.__name__ in alkstore.__all__
        assert inspect.getdoc(kind)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_error_survives_pickling_and_copying(number: int) -> None:
    error = EXAMPLES[number]
    copies = [pickle.loads(pickle.dumps(error, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]  # noqa: S301
    for twin in (*copies, copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.args == error.args
        assert vars(twin) == vars(error)


def test_the_details_of_an_error_are_named_and_have_defaults() -> None:
    assert LeadershipLost("x").retry_after is None
    assert LeadershipLost("x", retry_after=0.0).retry_after == 0.0
    plain = DatabaseError("x")
    assert (plain.sqlstate, plain.retryable) == (None, False)
    with pytest.raises(TypeError):
        LeadershipLost("x", 7.5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        DatabaseError("x", "57P01")  # type: ignore[call-arg]


def test_a_message_is_shown_as_it_is() -> None:
    for error in EXAMPLES[: len(TREE)]:
        assert str(error) == "what was given, what is allowed"


def test_the_details_do_not_change_the_message() -> None:
    assert str(DatabaseError("lost", sqlstate="57P01", retryable=True)) == "lost"
    assert str(LeadershipLost("lost", retry_after=1)) == "lost"
