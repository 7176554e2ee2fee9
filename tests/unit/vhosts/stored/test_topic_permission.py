"""Topic permissions: what the variables stand for, and whom they let through."""

import pytest

from routelog.vhosts.errors import AccessRefused, InvalidPermission
from routelog.vhosts.people.permission_book import PermissionBook, ResourceKind
from routelog.vhosts.people.permission_cache import PermissionCache
from routelog.vhosts.stored.permission import FULL_PERMISSION, Verb
from routelog.vhosts.stored.topic_permission import TopicPermission, TopicRule


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
