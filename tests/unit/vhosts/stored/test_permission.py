import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.arguments.pattern import CHARACTERS_MAX
from routelog.vhosts.errors import InvalidPermission
from routelog.vhosts.stored.permission import FULL_PERMISSION, Permission, Verb


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        (".*", "anything", True),
        ("", "anything", False),
        ("", "", False),
        ("orders", "eu.orders.new", True),  # unanchored
        ("^orders", "eu.orders", False),
        ("^orders$", "orders", True),
        ("^orders$", "orders2", False),
        ("^a|b$", "xb", True),
        ("^(?!amq\\.)", "amq.topic", False),  # look-around is used in the field
        ("^(?!amq\\.)", "mine", True),
        ("^(amq\\.gen.*|amq\\.default)$", "amq.default", True),
        ("^$", "a", False),
    ],
)
def test_a_pattern_decides_as_in_rabbitmq(pattern: str, name: str, allowed: bool) -> None:
    assert Permission(pattern, "", "").allows(Verb.CONFIGURE, name) is allowed


@pytest.mark.parametrize("verb", list(Verb))
def test_each_verb_has_its_own_pattern(verb: Verb) -> None:
    permission = Permission("configure", "write", "read")
    assert [name for name in ("configure", "write", "read") if permission.allows(verb, name)] == [
        verb.value
    ]
    assert FULL_PERMISSION.allows(verb, "anything")


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{2,1}", "\\", "(?<n"])
def test_a_pattern_that_is_none_is_refused_with_its_verb(pattern: str) -> None:
    with pytest.raises(InvalidPermission, match="invalid regular expression for write"):
        Permission("", pattern, "")


def test_the_length_of_a_pattern_is_limited() -> None:
    Permission("", "", "x" * CHARACTERS_MAX)
    with pytest.raises(InvalidPermission, match="for read: longer than 1024"):
        Permission("", "", "x" * (CHARACTERS_MAX + 1))


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a*)*$", "((a{1,100}){1,100}){1,100}b"])
def test_a_pattern_that_explodes_denies_instead_of_blocking(pattern: str) -> None:
    permission = Permission(pattern, "", "")
    start = time.process_time()
    assert not permission.allows(Verb.CONFIGURE, "a" * 254 + "!")
    assert time.process_time() - start < 1  # without a limit it is years


@given(st.text(alphabet="()[]{}*+?|\\^$.<>=!:#-,&a1PRxiu\n é", max_size=40))
def test_any_text_is_a_permission_or_refused_as_one(pattern: str) -> None:
    try:
        permission = Permission(pattern, "", "")
    except InvalidPermission:
        return
    permission.allows(Verb.CONFIGURE, "orders")


def test_permissions_with_the_same_patterns_are_equal() -> None:
    assert Permission("a", "b", "c") == Permission("a", "b", "c")
    assert Permission("a", "b", "c") != Permission("a", "b", "d")
