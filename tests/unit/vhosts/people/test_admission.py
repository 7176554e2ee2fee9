"""Connections and channels within the limits of vhosts and users."""

import pytest
from support.queue_samples import Node

from routelog.vhosts import (
    FULL_PERMISSION,
    Admission,
    ConnectionLimitReached,
    CountOf,
    InvalidLimit,
    SharedCounts,
    User,
    UserChannelLimitReached,
    UserConnectionLimitReached,
    UserDirectory,
    UserNotFound,
    VhostAccessRefused,
    VhostNotFound,
    VhostRecord,
)


async def no_hash(password: bytes) -> str:
    return ""


@pytest.fixture
async def users(node: Node) -> UserDirectory:
    users = UserDirectory(node.writer, no_hash)
    for name in ("alice", "bob"):
        await users.put_user(User(name, ""))
        await users.set_permissions(name, "/", FULL_PERMISSION)
    return users


@pytest.fixture
def admission(node: Node, users: UserDirectory) -> Admission:
    return Admission(node.vhosts, users)


async def test_without_permission_or_vhost_nobody_is_admitted(
    node: Node, users: UserDirectory, admission: Admission
) -> None:
    with pytest.raises(VhostNotFound):
        admission.admit("alice", "nowhere")
    await node.vhosts.add("other")
    with pytest.raises(VhostAccessRefused):
        admission.admit("alice", "other")
    assert admission.admit("alice", "/") is node.vhosts.get("/")


async def test_a_vhost_has_so_many_connections_and_no_more(
    node: Node, admission: Admission
) -> None:
    await node.vhosts.put(VhostRecord("/", limits={"max-connections": 2}))
    admission.admit("alice", "/")
    admission.admit("bob", "/")
    reason = "access to vhost '/' refused for user 'bob': connection limit \\(2\\) is reached"
    with pytest.raises(ConnectionLimitReached, match=reason):
        admission.admit("bob", "/")
    admission.left("alice", "/")
    admission.admit("bob", "/")


async def test_a_user_has_so_many_connections_and_channels(
    users: UserDirectory, admission: Admission
) -> None:
    await users.set_limits("alice", {"max-connections": 1, "max-channels": 1})
    admission.admit("alice", "/")
    admission.admit("bob", "/")
    with pytest.raises(UserConnectionLimitReached):
        admission.admit("alice", "/")
    admission.open_channel("alice")
    with pytest.raises(UserChannelLimitReached, match=r"user 'alice'.*limit of \(1\)"):
        admission.open_channel("alice")
    admission.channel_closed("alice")
    admission.open_channel("alice")
    await users.set_limits("alice", {})
    admission.admit("alice", "/")
    admission.open_channel("alice")


async def test_limits_count_the_clients_of_all_nodes(node: Node, users: UserDirectory) -> None:
    counts = SharedCounts()
    admission = Admission(node.vhosts, users, counts)
    await users.set_limits("alice", {"max-connections": 3, "max-channels": 2})
    await node.vhosts.put(VhostRecord("/", limits={"max-connections": 5}))
    counts.learn(
        [((CountOf.USER_CONNECTIONS, "alice"), 2), ((CountOf.USER_CHANNELS, "alice"), 1)], 2
    )
    counts.learn([((CountOf.VHOST_CONNECTIONS, "/"), 3)], 2)
    admission.admit("alice", "/")
    with pytest.raises(UserConnectionLimitReached):
        admission.admit("alice", "/")
    admission.admit("bob", "/")
    with pytest.raises(ConnectionLimitReached):
        admission.admit("bob", "/")
    admission.open_channel("alice")
    with pytest.raises(UserChannelLimitReached):
        admission.open_channel("alice")
    counts.learn([((CountOf.USER_CHANNELS, "alice"), 0)], 2)
    admission.open_channel("alice")


async def test_bad_limits_are_refused_and_good_ones_stay(node: Node, users: UserDirectory) -> None:
    await users.set_limits("alice", {"max-channels": 3})
    with pytest.raises(InvalidLimit):
        await users.set_limits("alice", {"max-queues": 3})
    with pytest.raises(UserNotFound):
        await users.set_limits("nobody", {})
    again = UserDirectory(node.writer, no_hash)
    again.load(node.logs.metadata)
    assert again.limits("alice") == {"max-channels": 3}
    assert again.limits("bob") == {}
    await users.delete_user("alice")
    again = UserDirectory(node.writer, no_hash)
    again.load(node.logs.metadata)
    assert again.find("alice") is None
