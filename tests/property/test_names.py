"""The naming rule (contract section 2, field case B131): one function, both directions."""

from __future__ import annotations

import enum
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore import MAX_NAME_BYTES, RESERVED_PREFIX, InvalidName, ReservedName
from alkstore._typing import override
from alkstore.names import SCHEDULER_LOCK, check_name, outbox_queue

LEGAL_CHARACTERS = st.characters(exclude_categories=("Cc", "Cs"))
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
ONE_OF_EACH_WIDTH = ["a", "\u00e9", "\u20ac", "\U0001f600"]


def legal_names() -> st.SearchStrategy[str]:
    def fits(name: str) -> bool:
        return len(name.encode()) <= MAX_NAME_BYTES and not name.startswith(RESERVED_PREFIX)

    return st.text(LEGAL_CHARACTERS, min_size=1, max_size=MAX_NAME_BYTES).filter(fits)


@given(legal_names())
def test_every_legal_name_is_returned_as_it_is(name: str) -> None:
    assert check_name(name, "queue") == name


@pytest.mark.parametrize(
    "name",
    [
        " ",
        "a b",
        "it's",
        '"; DROP TABLE jobs; --',
        "100%s of %(x)s and {schema} {}",
        "back\\slash",
        "\U0001f600",
        "a/b:c",
        "\u2028",
        "__alkstor",
        "x__alkstore_",
        "__ALKSTORE_x",
        "__alkstore",
    ],
)
def test_any_text_within_the_limits_is_a_name(name: str) -> None:
    assert check_name(name, "queue") == name


@pytest.mark.parametrize("wide", ONE_OF_EACH_WIDTH)
@pytest.mark.parametrize("filler", ["b", ""])
def test_two_hundred_bytes_are_allowed_and_one_more_is_not(wide: str, filler: str) -> None:
    width = len(wide.encode())
    longest = wide * (MAX_NAME_BYTES // width)
    longest += "b" * (MAX_NAME_BYTES - len(longest.encode()))
    assert len(longest.encode()) == 200
    assert check_name(longest, "queue") == longest
    too_long = longest + "b" if filler else longest[1:] + wide + "b"
    assert len(too_long.encode()) == 201
    with pytest.raises(InvalidName, match="200 bytes"):
        check_name(too_long, "queue")


@given(st.text(LEGAL_CHARACTERS, min_size=51).filter(lambda name: len(name.encode()) > 200))
def test_every_longer_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name, "queue")


@given(
    st.text(LEGAL_CHARACTERS, max_size=30),
    st.sampled_from([*CONTROLS, "\ud800", "\udbff", "\udc00", "\udfff"]),
    st.text(LEGAL_CHARACTERS, max_size=30),
)
def test_a_control_character_or_lone_surrogate_anywhere_is_refused(
    before: str, bad: str, after: str
) -> None:
    with pytest.raises(InvalidName):
        check_name(before + bad + after, "queue")


def test_the_control_characters_are_those_of_unicode() -> None:
    everything = (chr(code) for code in range(0x110000))
    assert [character for character in everything if unicodedata.category(character) == "Cc"] == (
        CONTROLS
    )


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(InvalidName, match="empty"):
        check_name("", "queue")


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.binary(),
        st.lists(st.text()),
        st.builds(object),
    )
)
def test_what_is_not_a_str_is_refused(name: object) -> None:
    with pytest.raises(InvalidName, match="str"):
        check_name(name, "queue")


@given(st.text(LEGAL_CHARACTERS, max_size=100))
def test_every_name_with_the_reserved_prefix_is_reserved(rest: str) -> None:
    name = RESERVED_PREFIX + rest
    with pytest.raises(InvalidName) as refusal:
        check_name(name, "lock")
    assert isinstance(refusal.value, ReservedName) == (len(name.encode()) <= MAX_NAME_BYTES)


@given(st.text(min_size=0, max_size=50_000), st.sampled_from(["queue", "lock", "outbox"]))
def test_a_refusal_names_the_kind_and_stays_short_and_printable(rest: str, kind: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        check_name("\0" + rest, kind)
    message = str(refusal.value)
    assert kind in message
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 1000


@given(legal_names())
def test_an_outbox_has_a_reserved_queue_of_its_own(name: str) -> None:
    assert outbox_queue(name) == "__alkstore_outbox:" + name
    with pytest.raises(InvalidName):
        check_name(outbox_queue(name), "queue")


def test_an_outbox_name_obeys_the_rule() -> None:
    with pytest.raises(InvalidName, match="outbox"):
        outbox_queue("")
    with pytest.raises(ReservedName):
        outbox_queue("__alkstore_x")
    with pytest.raises(InvalidName):
        outbox_queue(None)


def test_the_schedulers_lock_cannot_be_asked_for() -> None:
    assert SCHEDULER_LOCK == "__alkstore_scheduler"
    with pytest.raises(ReservedName):
        check_name(SCHEDULER_LOCK, "lock")


class Queues(str, enum.Enum):
    MAIL = "mail"
    OURS = "__alkstore_x"


class Liar(str):
    """A str that behaves like another one."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        return "__alkstore_scheduler"

    @override
    def __len__(self) -> int:
        return 1

    @override
    def startswith(self, *_: object) -> bool:
        return False


def test_a_subclass_of_str_counts_as_its_plain_text() -> None:
    for given_name, plain in ((Queues.MAIL, "mail"), (Liar("mail"), "mail")):
        checked = check_name(given_name, "queue")
        assert type(checked) is str
        assert checked == plain
    for reserved in (Queues.OURS, Liar("__alkstore_x")):
        with pytest.raises(ReservedName):
            check_name(reserved, "queue")
    with pytest.raises(InvalidName):
        check_name(Liar("x" * 201), "queue")
