"""Three-valued logic, comparison and arithmetic, without their texts."""

from __future__ import annotations

import pytest
from support.message_samples import batch, message

from routelog.vhosts.filters.expression import (
    Expression,
    Scalar,
    StoredMessage,
    among,
    both,
    calculated,
    compared,
    constant,
    either,
    header,
    is_null,
    negated,
    tagged,
)

RECORDS = batch(
    message(headers={"tag": "a,b"}), message(headers={"tag": "c"}), message(headers={"tag": 5})
)
TRUE, FALSE, UNKNOWN = constant(True), constant(False), header(b"absent")
TEXT = constant(b"a")  # logic knows nothing of it


def value(expression: Expression, index: int = 0) -> Scalar | None:
    return expression.value(StoredMessage(RECORDS, index, RECORDS.properties(index)))


@pytest.mark.parametrize(
    ("left", "right", "conjunction", "disjunction"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, UNKNOWN, None, True),
        (FALSE, FALSE, False, False),
        (FALSE, UNKNOWN, False, None),
        (UNKNOWN, UNKNOWN, None, None),
        (TRUE, TEXT, None, True),
        (FALSE, TEXT, False, None),
        (TEXT, TEXT, None, None),
    ],
)
def test_logic_has_three_values(
    left: Expression, right: Expression, conjunction: bool | None, disjunction: bool | None
) -> None:
    assert value(both(left, right)) is value(both(right, left)) is conjunction
    assert value(either(left, right)) is value(either(right, left)) is disjunction


def test_the_negation_of_what_is_unknown_is_unknown() -> None:
    assert [value(negated(each)) for each in (TRUE, FALSE, UNKNOWN, TEXT)] == [
        False,
        True,
        None,
        None,
    ]
    assert [value(is_null(each)) for each in (TRUE, FALSE, UNKNOWN)] == [False, False, True]


ORDERED = [b"a", b"b"], [1, 1.5]


@pytest.mark.parametrize("sign", ["=", "<>", "!=", "<", "<=", ">", ">="])
def test_like_values_are_compared(sign: str) -> None:
    as_python = {"=": "==", "<>": "!="}.get(sign, sign)
    for values in ORDERED:
        for one in values:
            for other in values:
                expected = eval(f"{one!r} {as_python} {other!r}")
                assert value(compared(sign, constant(one), constant(other))) is expected


@pytest.mark.parametrize(("one", "other"), [(b"1", 1), (1, True), (0.0, False), (b"", False)])
def test_unlike_values_differ_and_have_no_order(one: Scalar, other: Scalar) -> None:
    for left, right in ((constant(one), constant(other)), (constant(other), constant(one))):
        results = {sign: value(compared(sign, left, right)) for sign in ("=", "<>", "<", ">=")}
        assert results == {"=": False, "<>": True, "<": False, ">=": False}
        assert value(among(left, [right, left])) is True
        assert value(among(left, [right])) is False


def test_booleans_have_no_order() -> None:
    assert value(compared("=", TRUE, TRUE)) is True
    assert value(compared("<>", TRUE, FALSE)) is True
    assert value(compared(">", TRUE, FALSE)) is False


def test_what_is_made_of_something_unknown_is_unknown() -> None:
    one = constant(1)
    for left, right in ((one, UNKNOWN), (UNKNOWN, one)):
        assert value(compared("<>", left, right)) is None
        assert value(calculated(left, "+", right)) is None
    assert value(among(UNKNOWN, [one, UNKNOWN])) is None
    assert value(among(one, [UNKNOWN, one])) is True
    assert value(among(one, [UNKNOWN])) is False


def test_a_remainder_has_the_sign_of_the_first_number() -> None:
    cases = [(7, 5), (-7, 5), (7, -5), (-7, -5)]
    found = [value(calculated(constant(one), "%", constant(other))) for one, other in cases]
    assert found == [2, -2, 2, -2]


def test_a_tag_stands_alone_or_between_commas() -> None:
    assert [value(tagged(b"tag", [b"b"]), at) for at in range(3)] == [True, False, False]
    assert [value(tagged(b"tag", [b"c", b"x"]), at) for at in range(3)] == [False, True, False]
    assert [value(tagged(b"tag", [b"a,b"]), at) for at in range(3)] == [True, False, False]
    assert [value(tagged(b"tag", [b"5"]), at) for at in range(3)] == [False, False, False]
