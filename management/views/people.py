"""Users, permissions and topic permissions."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from routelog.management.calls.answer import Answer, Empty, Listing, Value, put
from routelog.management.calls.call import Call
from routelog.management.calls.failures import (
    Refused,
    bad_request,
    not_found,
    vhost_or_user_not_found,
)
from routelog.management.calls.operation import answers, changes, lists, puts
from routelog.management.shapes.definitions import (
    PermissionRow,
    TopicPermissionRow,
    UserRow,
    WhoAmI,
)
from routelog.vhosts import (
    ARGON2ID,
    Permission,
    TopicPermission,
    TopicRule,
    User,
    UserContent,
    described_permission,
    described_topic_permission,
    described_user,
    split_tags,
)


class TagsBody(msgspec.Struct):
    """The tags of a user."""

    tags: list[str] | str | None = None


class UserNames(msgspec.Struct):
    """Users who are to be deleted."""

    users: list[str]


class PermissionBody(msgspec.Struct):
    """Three patterns."""

    configure: str
    write: str
    read: str


class TopicPermissionBody(msgspec.Struct):
    """Two patterns for the keys of an exchange."""

    exchange: str
    write: str
    read: str


@answers(WhoAmI)
def whoami(call: Call) -> Answer:
    """The caller's name and tags."""
    return Value(WhoAmI(call.caller.name, list(call.caller.tags)))


@lists(UserRow)
def list_users(call: Call) -> Answer:
    """All users."""
    return _users(call, call.broker.users.users())


@lists(UserRow)
def list_users_without_permissions(call: Call) -> Answer:
    """Users who can enter no vhost."""
    users = call.broker.users
    return _users(
        call, [user for user in users.users() if not users.permissions.of_user(user.name)]
    )


def _users(call: Call, shown: Iterable[User]) -> Listing:
    users = call.broker.users
    return Listing(shown, lambda user: described_user(user, users), lambda user: str(user.name))


@answers(UserRow)
def get_user(call: Call) -> Answer:
    """A user."""
    users = call.broker.users
    return Value(described_user(users.get(call.path("user")), users))


@puts(UserContent)
async def put_user(call: Call) -> Answer:
    """Make a user, or replace the one of this name."""
    body = await call.body(UserContent)
    if body.password_hash and body.hashing_algorithm == ARGON2ID:
        raise bad_request("a hash of this broker comes back by definitions only")
    users, user = call.broker.users, body.user(call.path("user"))
    if body.password is not None:
        user = replace(user, password_hash=await users.hash_password(body.password.encode()))
    existed = users.find(user.name) is not None
    await users.put_user(user)
    return put(existed)


@changes(TagsBody)
async def put_tags(call: Call) -> Answer:
    """Replace a user's tags, and nothing else."""
    body = await call.body(TagsBody)
    if body.tags is None:
        raise bad_request("tags_not_present")
    await call.broker.users.set_tags(call.path("user"), tuple(split_tags(body.tags)))
    return Empty()


@changes()
async def delete_user(call: Call) -> Answer:
    """Delete a user; his connections are closed."""
    await call.broker.users.delete_user(call.path("user"))
    return Empty()


@changes(UserNames)
async def delete_users(call: Call) -> Answer:
    """Delete several users: all of them, or none when one is not there."""
    users = call.broker.users
    names = dict.fromkeys((await call.body(UserNames)).users)
    for name in names:
        if users.find(name) is None:
            raise bad_request(f"no_such_user: {name}")
    for name in names:
        await users.delete_user(name)
    return Empty()


# -- permissions


@lists(PermissionRow)
def list_permissions(call: Call) -> Answer:
    """All permissions."""
    users = call.broker.users
    items = (
        (user.name, vhost, permission)
        for user in users.users()
        for vhost, permission in users.permissions.of_user(user.name).items()
    )
    return Listing(items, lambda item: described_permission(*item))


@lists(PermissionRow)
def list_permissions_of_user(call: Call) -> Answer:
    """The permissions of a user."""
    users = call.broker.users
    name = users.get(call.path("user")).name
    items = users.permissions.of_user(name).items()
    return Listing(items, lambda item: described_permission(name, *item))


@lists(PermissionRow)
def list_permissions_of_vhost(call: Call) -> Answer:
    """The permissions in a vhost."""
    vhost = call.vhost.name
    items = sorted(call.broker.users.permissions.of_vhost(vhost).items())
    return Listing(items, lambda item: described_permission(item[0], vhost, item[1]))


@answers(PermissionRow)
def get_permission(call: Call) -> Answer:
    """What a user may do in a vhost."""
    user, vhost = call.path("user"), call.vhost.name
    call.broker.users.get(user)
    permission = call.broker.users.permissions.of_user(user).get(vhost)
    if permission is None:
        raise _no_permission(call, "permission")
    return Value(described_permission(user, vhost, permission))


@puts(PermissionBody)
async def put_permission(call: Call) -> Answer:
    """Say what a user may do in a vhost."""
    body = await call.body(PermissionBody)
    user = _existing_user(call)
    existed = call.vhost.name in call.broker.users.permissions.of_user(user)
    permission = Permission(body.configure, body.write, body.read)
    await call.broker.users.set_permissions(user, call.vhost.name, permission)
    return put(existed)


@changes()
async def delete_permission(call: Call) -> Answer:
    """Shut a user out of a vhost."""
    if call.vhost.name not in call.broker.users.permissions.of_user(call.path("user")):
        raise _no_permission(call, "permission")
    await call.broker.users.clear_permissions(call.path("user"), call.vhost.name)
    return Empty()


# -- topic permissions


@lists(TopicPermissionRow)
def list_topic_permissions(call: Call) -> Answer:
    """All topic permissions."""
    book = call.broker.users.permissions
    return _topic_permissions(
        (user, vhost, rules)
        for user in book.topic_users()
        for vhost, rules in book.topics_of_user(user).items()
    )


@lists(TopicPermissionRow)
def list_topic_permissions_of_user(call: Call) -> Answer:
    """The topic permissions of a user."""
    users = call.broker.users
    name = users.get(call.path("user")).name
    of_user = users.permissions.topics_of_user(name)
    return _topic_permissions((name, vhost, rules) for vhost, rules in of_user.items())


@lists(TopicPermissionRow)
def list_topic_permissions_of_vhost(call: Call) -> Answer:
    """The topic permissions in a vhost."""
    book, vhost = call.broker.users.permissions, call.vhost.name
    return _topic_permissions(
        (user, vhost, book.topics(user, vhost)) for user in book.topic_users()
    )


@lists(TopicPermissionRow)
def list_topic_permissions_of_user_in_vhost(call: Call) -> Answer:
    """The topic permissions of a user in a vhost."""
    name, vhost = call.broker.users.get(call.path("user")).name, call.vhost.name
    rules = call.broker.users.permissions.topics(name, vhost)
    if not rules:
        raise _no_permission(
            call, "topic permission"
        )  # RabbitMQ's other lists of them are empty; this one is not there
    return _topic_permissions([(name, vhost, rules)])


def _topic_permissions(found: Iterable[tuple[str, str, Mapping[str, TopicRule]]]) -> Listing:
    # By user and vhost; what is found is looked through in turns.
    items = (
        (user, vhost, each.permission) for user, vhost, rules in found for each in rules.values()
    )
    return Listing(
        items, lambda item: described_topic_permission(*item), order=lambda item: item[:2]
    )


@puts(TopicPermissionBody)
async def put_topic_permission(call: Call) -> Answer:
    """Restrict a user to some keys of a topic exchange."""
    body = await call.body(TopicPermissionBody)
    user, vhost = _existing_user(call), call.vhost.name
    existed = body.exchange in call.broker.users.permissions.topics(user, vhost)
    permission = TopicPermission(body.exchange, body.write, body.read)
    await call.broker.users.set_topic_permission(user, vhost, permission)
    return put(existed)


@changes()
async def delete_topic_permissions(call: Call) -> Answer:
    """Lift all topic restrictions of a user in a vhost."""
    if not call.broker.users.permissions.topics(call.path("user"), call.vhost.name):
        raise _no_permission(call, "topic permission")
    await call.broker.users.clear_topic_permissions(call.path("user"), call.vhost.name)
    return Empty()


@changes()
async def delete_topic_permission(call: Call) -> Answer:
    """Lift the restriction of a user on one exchange."""
    user, exchange = call.path("user"), call.path("exchange")
    if exchange not in call.broker.users.permissions.topics(user, call.vhost.name):
        raise _no_permission(call, f"permission for topic exchange '{exchange}'")
    await call.broker.users.clear_topic_permissions(user, call.vhost.name, exchange)
    return Empty()


def _no_permission(call: Call, kind: str) -> Refused:
    user = call.broker.users.get(call.path("user")).name
    return not_found(f"{kind} of user", user, call.vhost.name)


def _existing_user(call: Call) -> str:
    name = call.path("user")
    if call.broker.users.find(name) is None:
        raise vhost_or_user_not_found()
    return name
