"""Reply codes and texts."""

import pytest

from routelog.amqp_front.wire import errors
from routelog.amqp_front.wire.errors import (
    CODE_NAMES,
    NOT_FOUND,
    HardError,
    SoftError,
    reply_text,
    short_text,
)


def test_a_reply_text_begins_with_the_name_of_its_code() -> None:
    assert reply_text(NOT_FOUND, "no queue 'q'") == "NOT_FOUND - no queue 'q'"
    assert str(SoftError(NOT_FOUND, "no queue 'q'")) == "NOT_FOUND - no queue 'q'"


@pytest.mark.parametrize("letter", ["a", "é", "€", "\U0001f600"])
@pytest.mark.parametrize("length", [0, 58, 59, 60, 61, 62, 63, 230, 241, 242, 243, 244, 245, 5000])
def test_a_reply_text_fits_in_a_short_string(letter: str, length: int) -> None:
    whole = f"NOT_FOUND - {letter * length}"
    text = reply_text(NOT_FOUND, letter * length)
    size = len(text.encode())
    if len(whole.encode()) <= 255:
        assert text == whole
    else:
        assert text.endswith("...")
        assert whole.startswith(text[:-3])
        assert 255 - 4 < size <= 255


def test_octets_of_a_key_that_are_no_utf_8_are_replaced() -> None:
    key = b"a\xff".decode(errors="surrogateescape")
    error = SoftError(NOT_FOUND, f"topic '{key}'")
    assert (str(error), error.reason) == ("NOT_FOUND - topic 'a?'", "topic 'a?'")
    assert short_text(key) == "a?"


def test_every_code_has_its_name() -> None:
    codes = {
        name: value
        for name, value in vars(errors).items()
        if name.isupper() and isinstance(value, int) and 300 < value < 600
    }
    assert {value: name for name, value in codes.items()} == CODE_NAMES


def test_errors_keep_code_and_whole_reason() -> None:
    error = HardError(NOT_FOUND, "x" * 1000)
    assert (error.code, error.reason) == (NOT_FOUND, "x" * 1000)
    assert not isinstance(error, SoftError)
