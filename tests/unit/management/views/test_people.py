"""Users and permissions over HTTP."""

import json

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused, refused
from routelog.management.calls.listing import list_query, listed
from routelog.management.views import people
from routelog.vhosts import InvalidPermission, InvalidUser, TopicPermission, User, UserNotFound

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
SHA256 = "rabbit_password_hashing_sha256"
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


async def test_a_user_is_made_shown_changed_and_deleted(node: ManagedNode) -> None:
    body = {"password": "secret", "tags": "management,monitoring"}
    assert await node.ask(people.put_user, user="u", body=body) == 201
    assert await node.ask(people.put_user, user="u", body=body) == 204
    assert node.users.get("u") == User("u", "hash of secret", ("management", "monitoring"))
    row = await node.ask(people.get_user, user="u")
    assert (row["name"], row["tags"]) == ("u", ["management", "monitoring"])
    assert row["password_hash"] == "hash of secret"  # as RabbitMQ does for administrators
    assert await node.ask(people.put_tags, user="u", body={"tags": []}) == 204
    assert node.users.get("u").tags == ()
    assert [row["name"] for row in await node.ask(people.list_users)] == ["u"]
    assert await node.ask(people.delete_user, user="u") == 204
    with pytest.raises(UserNotFound):
        await node.ask(people.get_user, user="u")


async def test_several_are_deleted_and_those_who_are_not_there_are_no_error(
    node: ManagedNode,
) -> None:
    for name in ("a", "b"):
        await node.user(name)
    with pytest.raises(Refused, match="no_such_user: nobody"):
        await node.ask(people.delete_users, body={"users": ["a", "nobody"]})
    assert await node.ask(people.delete_users, body={"users": ["a", "a"]}) == 204
    assert [user.name for user in node.users.users()] == ["b"]


async def test_a_hash_that_was_exported_elsewhere_is_taken(node: ManagedNode) -> None:
    body = {"password_hash": HASH, "hashing_algorithm": SHA256, "tags": ""}
    assert await node.ask(people.put_user, user="u", body=body) == 201
    assert HASH in node.users.get("u").password_hash
    assert await node.ask(people.put_user, user="nobody", body={"tags": ""}) == 201
    assert node.users.get("nobody").password_hash == ""  # may log in by no password


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "secret"}, "tags_not_present"),
        (
            {"tags": "", "password": "p", "password_hash": HASH},
            "both_password_and_password_hash_are_provided",
        ),
        ({"tags": "", "password_hash": HASH, "hashing_algorithm": "a:b"}, "hashing algorithm"),
        ({"tags": "", "password_hash": HASH, "hashing_algorithm": "argon2id"}, "definitions only"),
        ({"tags": 1}, "tags"),
        (b'"u"', "not_json"),
    ],
)
async def test_what_is_no_user_is_refused(node: ManagedNode, body: object, reason: str) -> None:
    with pytest.raises((Refused, InvalidUser), match=reason) as raised:
        await node.ask(people.put_user, user="u", body=body)
    answer = refused(raised.value)
    assert answer is not None
    assert answer.status == 400
    assert node.users.users() == []


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ({"tags": "", "password_hash": HASH, "hashing_algorithm": None}, ()),
        ({"tags": "", "password_hash": "", "hashing_algorithm": "odd"}, ()),
        ({"password": "p", "administrator": "true"}, ("administrator",)),
        ({"password": "p", "administrator": False}, ()),
    ],
)
async def test_a_user_of_another_form_is_taken(
    node: ManagedNode, body: object, tags: tuple[str, ...]
) -> None:
    assert await node.ask(people.put_user, user="u", body=body) == 201
    assert node.users.get("u").tags == tags


@pytest.mark.parametrize("odd", [{"password_hash": "abcd"}, {"hashing_algorithm": "odd"}])
async def test_a_hash_that_no_password_has_is_kept_and_warned_of(
    node: ManagedNode, odd: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    body = {"tags": "", "password_hash": HASH, **odd}
    assert await node.ask(people.put_user, user="u", body=body) == 201
    assert "user 'u' cannot log in: the " in caplog.text
    shown = await node.ask(people.get_user, user="u")
    assert shown["password_hash"] == body["password_hash"]
    assert shown["hashing_algorithm"] == odd.get("hashing_algorithm", SHA256)


async def test_a_bad_name_or_hash_is_refused(node: ManagedNode) -> None:
    with pytest.raises(InvalidUser):
        await node.ask(people.put_user, user="", body={"tags": "", "password": "p"})
    with pytest.raises(InvalidUser):
        await node.ask(people.put_user, user="u", body={"tags": "", "password_hash": "?"})
    with pytest.raises(Refused, match="tags_not_present"):
        await node.ask(people.put_tags, user="u", body={})


async def test_who_asks_is_told_who_he_is(node: ManagedNode) -> None:
    caller = node.caller("u", "management")
    assert await node.ask(people.whoami, caller) == {"name": "u", "tags": ["management"]}


async def test_permissions_are_set_shown_and_cleared(node: ManagedNode) -> None:
    await node.users.put_user(User("u", "", ()))
    assert len(await node.ask(people.list_users_without_permissions)) == 1
    assert await node.ask(people.put_permission, user="u", body=ALL) == 201
    assert await node.ask(people.put_permission, user="u", body={**ALL, "read": ""}) == 204
    expected = {"user": "u", "vhost": "/", "configure": ".*", "write": ".*", "read": ""}
    assert await node.ask(people.get_permission, user="u") == expected
    for handler in (
        people.list_permissions,
        people.list_permissions_of_user,
        people.list_permissions_of_vhost,
    ):
        assert await node.ask(handler, user="u") == [expected]
    assert await node.ask(people.list_users_without_permissions) == []
    assert await node.ask(people.delete_permission, user="u") == 204
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(people.get_permission, user="u")


async def test_topic_permissions_are_set_shown_and_cleared(node: ManagedNode) -> None:
    await node.user("u")
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(people.list_topic_permissions_of_user_in_vhost, user="u")
    rules = [{"exchange": name, "write": "^a", "read": "^b"} for name in ("x", "y")]
    for rule in rules:
        assert await node.ask(people.put_topic_permission, user="u", body=rule) == 201
        assert await node.ask(people.put_topic_permission, user="u", body=rule) == 204
    expected = [{"user": "u", "vhost": "/", **rule} for rule in rules]
    for handler in (
        people.list_topic_permissions,
        people.list_topic_permissions_of_user,
        people.list_topic_permissions_of_vhost,
        people.list_topic_permissions_of_user_in_vhost,
    ):
        assert await node.ask(handler, user="u") == expected
    assert await node.ask(people.delete_topic_permission, user="u", exchange="x") == 204
    assert await node.ask(people.list_topic_permissions) == expected[1:]
    assert await node.ask(people.delete_topic_permissions, user="u") == 204
    assert await node.ask(people.list_topic_permissions) == []


async def test_topic_permissions_are_listed_by_user_and_vhost(node: ManagedNode) -> None:
    await node.node.vhosts.add("a")
    for name in ("u2", "u1"):
        await node.user(name)
        for vhost in ("a", "/"):
            permission = TopicPermission("x", "", "")
            await node.users.set_topic_permission(name, vhost, permission)
    for handler, owners in (
        (people.list_topic_permissions, ["u1 /", "u1 a", "u2 /", "u2 a"]),
        (people.list_topic_permissions_of_vhost, ["u1 /", "u2 /"]),
        (people.list_topic_permissions_of_user, ["u1 /", "u1 a"]),
    ):
        pieces = await listed(handler(node.call(user="u1")), list_query({}))
        rows = json.loads(b"".join([piece async for piece in pieces]))
        assert [f"{row['user']} {row['vhost']}" for row in rows] == owners


async def test_permissions_of_nobody_and_bad_patterns_are_refused(node: ManagedNode) -> None:
    rule = {"exchange": "x", "write": "", "read": ""}
    with pytest.raises(Refused, match="vhost_or_user_not_found"):
        await node.ask(people.put_permission, user="u", body=ALL)
    with pytest.raises(Refused, match="vhost_or_user_not_found"):
        await node.ask(people.put_topic_permission, user="u", body=rule)
    with pytest.raises(UserNotFound):
        await node.ask(people.list_permissions_of_user, user="u")
    await node.user("u")
    with pytest.raises(InvalidPermission):
        await node.ask(people.put_permission, user="u", body={**ALL, "read": "("})
    with pytest.raises(InvalidPermission):
        await node.ask(people.put_topic_permission, user="u", body={**rule, "read": "("})
    with pytest.raises(Refused, match="write"):
        await node.ask(people.put_permission, user="u", body={"configure": ".*"})
