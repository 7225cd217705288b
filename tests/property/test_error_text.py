"""The text of a failure is always storable (field case B92): fail() never fails."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from alkstore._typing import override
from alkstore.error_text import MAX_ERROR_CHARACTERS, error_text

SURROGATES = st.characters(categories=["Cs"])


@given(st.text(st.characters() | SURROGATES | st.just("\0")))
@example("\0")
@example("\ud800")
@example("\udfff\0\ud83d")
def test_any_text_becomes_one_that_every_store_can_keep(text: str) -> None:
    kept = error_text(ValueError(text))
    assert kept
    assert "\0" not in kept
    assert kept.encode("utf-8").decode("utf-8") == kept


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_an_ordinary_text_is_kept_as_it_is(text: str) -> None:
    assert error_text(ValueError(text)) == error_text(text) == text


def test_what_cannot_be_stored_is_escaped() -> None:
    assert error_text(ValueError("a\0b")) == "a\\x00b"
    assert error_text(ValueError("a\ud800b")) == "a\\ud800b"


def test_an_error_without_a_text_gives_its_class() -> None:
    assert error_text(ValueError()) == "ValueError"
    assert error_text(ValueError("")) == "ValueError"


class Unprintable(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


class NotText(Exception):
    @override
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307 - some do


def test_an_error_whose_text_cannot_be_had_gives_its_class() -> None:
    assert error_text(Unprintable()) == "Unprintable"
    assert error_text(NotText()) == "NotText"


def test_a_long_text_is_cut() -> None:
    longest = "x" * MAX_ERROR_CHARACTERS
    assert error_text(ValueError(longest)) == longest
    cut = error_text(ValueError(longest + "y"))
    assert len(cut) == MAX_ERROR_CHARACTERS
    assert cut.endswith("x...")
    assert error_text(ValueError("\U0001f600" * 10**6)).endswith("\U0001f600...")
