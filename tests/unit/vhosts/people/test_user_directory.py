import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from routelog.log_backend.metadata.metadata import (
    Change,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
)
from routelog.vhosts.errors import (
    InvalidPermission,
    InvalidUser,
    UserExists,
    UserNotFound,
    VhostAccessRefused,
)
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.stored.permission import FULL_PERMISSION, Permission, TopicPermission
from routelog.vhosts.stored.user import User

NASTY_NAMES = [
    "a/b",
    "a%2Fb",
    "a",
    "..",
    "permissions/x",
    "é",
    " ",
    "\U0001f600",
    "'\"<b>",
    "x" * 255,
]


async def fake_hash(password: bytes) -> str:
    await asyncio.sleep(0)
    return f"hash of {password.decode()}"


class BrokenWriter:
    """Takes nothing, as after a failed sync."""

    def check(self) -> None:
        raise MetadataUnavailable("a sync failed")

    def submit(self, changes: Sequence[Change]) -> "asyncio.Future[int]":
        raise MetadataUnavailable("a sync failed")


class DirectWriter:
    """Carries changes out at once."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def check(self) -> None:
        """See `MetadataWriter`."""

    def submit(self, changes: Sequence[Change]) -> "asyncio.Future[int]":
        """See `MetadataWriter`."""
        durable = asyncio.get_running_loop().create_future()
        durable.set_result(self._store.apply(changes))
        return durable


class StoredUsers:
    """A store, its writer and a directory that can be read back from it."""

    def __init__(self, path: Path) -> None:
        self.store = MetadataStore.open(path)
        self.writer = DirectWriter(self.store)
        self.directory = UserDirectory(self.writer, fake_hash)
        self.directory.load(self.store)

    def reloaded(self) -> UserDirectory:
        directory = UserDirectory(self.writer, fake_hash)
        directory.load(self.store)
        return directory

    async def close(self) -> None:
        self.store.close()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoredUsers]:
    node = StoredUsers(tmp_path / "metadata")
    yield node
    await node.close()


@pytest.fixture
def directory(node: StoredUsers) -> UserDirectory:
    return node.directory


def contents(directory: UserDirectory) -> dict[User, dict[str, Permission]]:
    return {user: directory.permissions.of_user(user.name) for user in directory.users()}


async def test_users_and_permissions_are_read_back_after_a_restart(tmp_path: Path) -> None:
    first = StoredUsers(tmp_path / "metadata")
    await first.directory.add_user("alice", b"pw", ("monitoring", "management"))
    await first.directory.add_user("bob", b"")
    await first.directory.set_permissions("alice", "/", Permission("^a", "", ".*"))
    await first.directory.set_permissions("alice", "v", FULL_PERMISSION)
    await first.close()
    second = StoredUsers(tmp_path / "metadata")
    assert contents(second.directory) == contents(first.directory)
    assert second.directory.get("alice").password_hash == "hash of pw"
    await second.close()


async def test_every_mutation_leaves_memory_and_store_the_same(
    node: StoredUsers, directory: UserDirectory
) -> None:
    await directory.create_default_user()
    assert contents(node.reloaded()) == contents(directory)
    await directory.add_user("alice", b"pw")
    await directory.put_user(User("alice", "hash of other", ()))
    await directory.set_tags("alice", ("management",))
    await directory.set_permissions("alice", "/", FULL_PERMISSION)
    await directory.set_permissions("alice", "v", FULL_PERMISSION)
    assert contents(node.reloaded()) == contents(directory)
    await directory.clear_permissions("alice", "v")
    await directory.clear_vhost("/")
    assert contents(node.reloaded()) == contents(directory)
    assert directory.permissions.of_user("alice") == {}
    await directory.delete_user("alice")
    assert contents(node.reloaded()) == contents(directory)
    assert [user.name for user in directory.users()] == ["guest"]


async def test_no_name_reaches_into_the_keys_of_another(
    node: StoredUsers, directory: UserDirectory
) -> None:
    for name in NASTY_NAMES:
        await directory.add_user(name, b"pw")
        for vhost in NASTY_NAMES:
            await directory.set_permissions(name, vhost, Permission("^c$", name[:9], ""))
    assert len(contents(directory)) == len(NASTY_NAMES)
    assert contents(node.reloaded()) == contents(directory)
    await directory.delete_user("a")
    await directory.clear_vhost("a")
    assert contents(node.reloaded()) == contents(directory)
    assert len(directory.permissions.of_user("a/b")) == len(NASTY_NAMES) - 1


async def test_a_slash_in_a_name_is_not_the_slash_between_names(
    node: StoredUsers, directory: UserDirectory
) -> None:
    await directory.add_user("c", b"pw")
    await directory.add_user("b/c", b"pw")
    await directory.set_permissions("c", "a/b", Permission("1", "", ""))
    await directory.set_permissions("b/c", "a", Permission("2", "", ""))
    assert contents(node.reloaded()) == contents(directory)
    await directory.clear_permissions("c", "a/b")
    assert contents(node.reloaded()) == contents(directory)


async def test_a_name_is_given_once_even_to_two_at_the_same_time(directory: UserDirectory) -> None:
    outcomes = await asyncio.gather(
        directory.add_user("alice", b"1"), directory.add_user("alice", b"2"), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [User, UserExists]
    assert directory.get("alice").password_hash == "hash of 1"
    with pytest.raises(UserExists, match="'alice'"):
        await directory.add_user("alice", b"3")


async def test_a_bad_name_is_refused(directory: UserDirectory) -> None:
    with pytest.raises(InvalidUser):
        await directory.add_user("", b"pw")
    assert directory.users() == []


async def test_an_unknown_user_is_named(directory: UserDirectory) -> None:
    for mutation in (
        directory.delete_user("bob"),
        directory.set_tags("bob", ()),
        directory.set_permissions("bob", "/", FULL_PERMISSION),
        directory.clear_permissions("bob", "/"),
    ):
        with pytest.raises(UserNotFound, match="no user 'bob'"):
            await mutation
    assert directory.find("bob") is None


async def test_a_user_created_again_has_none_of_the_old_permissions(
    node: StoredUsers, directory: UserDirectory
) -> None:
    await directory.add_user("alice", b"pw")
    await directory.set_permissions("alice", "/", FULL_PERMISSION)
    await directory.delete_user("alice")
    await directory.add_user("alice", b"pw")
    for each in (directory, node.reloaded()):
        with pytest.raises(VhostAccessRefused):
            each.permissions.authorize_vhost("alice", "/")


async def test_whatever_could_end_a_login_changes_the_users_revision(
    directory: UserDirectory,
) -> None:
    await directory.add_user("alice", b"pw")
    seen = [directory.permissions.revision("alice")]
    for mutation in (
        directory.put_user(User("alice", "hash of other", ())),
        directory.set_tags("alice", ("management",)),
        directory.set_permissions("alice", "/", FULL_PERMISSION),
        directory.clear_vhost("/"),
        directory.delete_user("alice"),
        directory.add_user("alice", b"pw"),
    ):
        await mutation
        seen.append(directory.permissions.revision("alice"))
    assert len(set(seen)) == len(seen)


async def test_a_change_is_in_force_before_it_is_durable(directory: UserDirectory) -> None:
    await directory.add_user("alice", b"pw")
    deletion = asyncio.create_task(directory.delete_user("alice"))
    await asyncio.sleep(0)
    assert directory.find("alice") is None
    await deletion


async def test_an_empty_directory_gets_a_default_administrator(directory: UserDirectory) -> None:
    assert await directory.create_default_user()
    guest = directory.get("guest")
    assert guest == User("guest", "hash of guest", ("administrator",))
    assert directory.permissions.of_user("guest") == {"/": Permission(".*", ".*", ".*")}


async def test_the_default_user_and_his_permission_are_one_batch(
    node: StoredUsers, directory: UserDirectory
) -> None:
    await directory.create_default_user("root", b"pw", "main")
    assert {entry.revision for _, entry in node.store.scan(b"")} == {1}


async def test_a_directory_with_users_gets_no_default_user(directory: UserDirectory) -> None:
    await directory.add_user("alice", b"pw")
    assert not await directory.create_default_user()
    assert directory.find("guest") is None


async def test_a_user_added_meanwhile_keeps_the_default_user_out(directory: UserDirectory) -> None:
    creation = asyncio.create_task(directory.create_default_user())
    await asyncio.sleep(0)
    await directory.put_user(User("alice", ""))
    assert not await creation


async def test_a_store_that_takes_nothing_leaves_memory_as_it_is(
    node: StoredUsers, directory: UserDirectory
) -> None:
    await directory.add_user("alice", b"pw")
    await directory.set_permissions("alice", "/", FULL_PERMISSION)
    broken = UserDirectory(BrokenWriter(), fake_hash)
    broken.load(node.store)
    before = contents(broken)
    for mutation in (
        broken.add_user("bob", b"pw"),
        broken.delete_user("alice"),
        broken.put_user(User("alice", "hash of other", ())),
        broken.set_permissions("alice", "v", FULL_PERMISSION),
        broken.clear_permissions("alice", "/"),
        broken.clear_vhost("/"),
    ):
        with pytest.raises(MetadataUnavailable):
            await mutation
    assert contents(broken) == before


USER = b'{"version":1,"name":"a","password_hash":"h","tags":["t"]}'
PERMISSION = b'{"version":1,"vhost":"/","user":"a","configure":"c","write":"w","read":"r"}'


async def test_records_of_version_1_are_read(node: StoredUsers) -> None:
    node.store.apply([Change(b"users/a", USER), Change(b"permissions/%2F/a", PERMISSION)])
    assert contents(node.reloaded()) == {User("a", "h", ("t",)): {"/": Permission("c", "w", "r")}}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"users/a", b""),
        (b"users/a", USER[:-1]),
        (b"users/a", USER.replace(b":1", b":2")),
        (b"users/a", USER.replace(b'"a"', b'""')),
        (b"users/a", USER.replace(b'"h"', b"7")),
        (b"permissions/%2F/a", PERMISSION),  # of no user
        (b"permissions/%2F/b", PERMISSION.replace(b'"w"', b'"("')),
        (b"permissions/%2F/b", PERMISSION.replace(b'"w"', b"null")),
    ],
)
async def test_a_record_that_cannot_be_right_stops_the_loading(
    node: StoredUsers, key: bytes, value: bytes
) -> None:
    node.store.apply([Change(key, value)])
    with pytest.raises(MetadataCorrupt):
        node.reloaded()


# -- topic permissions


async def test_topic_permissions_are_read_back_after_a_restart(node: StoredUsers) -> None:
    for name in NASTY_NAMES[:4]:
        await node.directory.add_user(name, b"pw")
        await node.directory.set_topic_permission(name, "v/1", TopicPermission("x/%", "^a", "^b"))
        await node.directory.set_topic_permission(name, "v/1", TopicPermission("y", "", ""))
        await node.directory.clear_topic_permissions(name, "v/1", "y")
        rules = node.reloaded().permissions.topics(name, "v/1")
        assert [rule.permission for rule in rules.values()] == [TopicPermission("x/%", "^a", "^b")]


async def test_a_bad_topic_permission_is_not_stored(node: StoredUsers) -> None:
    await node.directory.add_user("alice", b"pw")
    with pytest.raises(InvalidPermission):
        await node.directory.set_topic_permission("alice", "/", TopicPermission("x", "(", ""))
    with pytest.raises(UserNotFound):
        await node.directory.set_topic_permission("bob", "/", TopicPermission("x", "", ""))
    assert node.reloaded().permissions.topic_users() == []


async def test_topic_permissions_go_with_their_user_or_vhost(node: StoredUsers) -> None:
    for name in ("alice", "bob"):
        await node.directory.add_user(name, b"pw")
        for vhost in ("a", "b"):
            await node.directory.set_topic_permission(name, vhost, TopicPermission("x", "", ""))
    await node.directory.delete_user("alice")
    await node.directory.clear_vhost("a")
    for book in (node.directory.permissions, node.reloaded().permissions):
        assert book.topic_users() == ["bob"]
        assert list(book.topics_of_user("bob")) == ["b"]


async def test_who_waits_for_deletions_hears_of_them(directory: UserDirectory) -> None:
    gone: list[str] = []
    directory.on_deleted = gone.append
    await directory.add_user("alice", b"pw")
    await directory.delete_user("alice")
    assert gone == ["alice"]
