import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.arguments.pattern import CHARACTERS_MAX
from routelog.vhosts.errors import AccessRefused, InvalidPermission
from routelog.vhosts.people.permission_book import PermissionBook, PermissionCache, ResourceKind
from routelog.vhosts.stored.permission import (
    FULL_PERMISSION,
    Permission,
    TopicPermission,
    TopicRule,
    Verb,
)


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


def allows(pattern: str, key: str, user: str = "alice", vhost: str = "/") -> bool:
    return TopicRule(TopicPermission("x", pattern, ""), user, vhost).allows(Verb.WRITE, key)


@pytest.mark.parametrize(
    ("pattern", "key", "allowed"),
    [
        ("^{username}\\.", "alice.orders", True),
        ("^{username}\\.", "bob.orders", False),
        ("{vhost}", "a/b", True),
        ("^{client_id}$", "alice", False),
        ("^{client_id}$", "{client_id}", True),
        ("^[{username}]$", "e", True),
        ("", "anything", False),
        ("^x{2}$", "xx", True),
    ],
)
def test_a_key_is_matched_with_the_names_filled_in(pattern: str, key: str, allowed: bool) -> None:
    assert allows(pattern, key) is allowed


@pytest.mark.parametrize("user", [".*", "a-z", "a|b", "(", "[^-]", "\\", "{vhost}", "é^$"])
def test_a_users_name_is_never_read_as_a_pattern(user: str) -> None:
    assert allows("^{username}$", user, user)
    assert allows("^[{username}]+$", user, user)
    assert not allows("^{username}$", "abc", user)
    assert not allows("^[{username}]+$", "bcd", user)


def test_a_bad_pattern_is_refused_with_its_verb() -> None:
    with pytest.raises(InvalidPermission, match="for read"):
        TopicRule(TopicPermission("x", "", "("), "alice", "/")


def test_without_an_entry_for_the_exchange_every_key_is_allowed() -> None:
    book = PermissionBook()
    book.put_topic("alice", "/", TopicPermission("x", "^a", ""))
    book.authorize_topic("alice", "/", "y", Verb.WRITE, "b")
    book.authorize_topic("bob", "/", "x", Verb.WRITE, "b")
    book.authorize_topic("alice", "/other", "x", Verb.WRITE, "b")
    book.authorize_topic("alice", "/", "x", Verb.WRITE, "a")
    reason = "write access to topic 'b' in exchange 'x' in vhost '/' refused for user 'alice'"
    with pytest.raises(AccessRefused, match=reason):
        book.authorize_topic("alice", "/", "x", Verb.WRITE, "b")


def test_a_connection_sees_a_change_with_its_next_question() -> None:
    book = PermissionBook()
    book.put("alice", "/", FULL_PERMISSION)
    cache = PermissionCache(book, "alice", "/")
    assert not cache.topics
    book.put_topic("alice", "/", TopicPermission("x", "^a", "^b"))
    cache.authorize_any(ResourceKind.QUEUE, "q")
    with pytest.raises(AccessRefused):
        cache.authorize_topic("x", Verb.WRITE, "b")
    cache.authorize(ResourceKind.QUEUE, "q", Verb.READ)
    assert list(cache.topics) == ["x"]
    book.remove_topic("alice", "/", "other")
    assert list(cache.topics) == ["x"]
    book.remove_topic("alice", "/", "x")
    cache.authorize_topic("x", Verb.WRITE, "b")


def test_with_the_user_his_topic_permissions_go() -> None:
    book = PermissionBook()
    for user in ("alice", "bob"):
        book.put_topic(user, "/", TopicPermission("x", "", ""))
    book.remove_user("alice")
    assert book.topic_users() == ["bob"]
