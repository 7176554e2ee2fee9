"""What a node keeps: begun, opened again, and refused in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from hashlib import scrypt
from pathlib import Path

import pytest

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.data_directory import DefinitionsFile, StartError
from routelog.broker.process.node_store import NodeStore
from routelog.log_backend import Change, SystemClock
from routelog.vhosts import (
    FULL_PERMISSION,
    InvalidDefinition,
    TopicPermission,
    VhostNotFound,
    VhostRecord,
)


def opened(data: Path, **settings: str) -> NodeStore:
    config, clock = BrokerConfig(data_dir=data, **settings), SystemClock()
    return NodeStore(config, clock, AmqpFront(config, "node", clock), None)


async def begun(
    data: Path, epoch: int, definitions: DefinitionsFile | None = None, *, goes_on: bool = False
) -> NodeStore:
    store = opened(data)
    store.logs.recover_metadata()
    await store.definitions.load()
    await store.recover()
    try:
        await store.begin(epoch, definitions, goes_on=goes_on)
    except BaseException:
        await store.aclose()
        raise
    return store


async def test_what_it_keeps_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    store = await begun(tmp_path, 1)
    name = store.parameters.cluster_name("")
    await store.vhosts.add("other")
    await store.aclose()
    store = await begun(tmp_path, 2)
    assert sorted(vhost.name for vhost in store.vhosts.all()) == ["/", "other"]
    assert store.parameters.cluster_name("") == name
    assert [user.name for user in store.users.users()] == ["guest"]
    await store.aclose()


async def test_without_remote_storage_it_notes_where_logs_ended_that_a_bucket_has(
    tmp_path: Path,
) -> None:
    for epoch, is_noted in ((1, False), (2, True), (3, True)):
        store = await begun(tmp_path, epoch)
        # An entry of the journal behind that of the start
        await store.logs.metadata_writer.submit([Change(b"remote-owner", b"orders")])
        noted = store.logs.metadata.get(b"remote-unchecked")
        assert (noted is not None) == is_noted
        if noted is not None:
            assert b'"epoch":2' in noted.value, (
                "the first one of those that saw nothing of the bucket"
            )
        await store.aclose()


async def test_a_directory_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StartError, match=rf"^data directory {file}: "):
        opened(file)
    with pytest.raises(StartError, match=r"^remote_storage: "):
        opened(tmp_path / "data", remote_storage=f"file://{tmp_path}/data/bucket")
    store = await begun(tmp_path / "data", 1)
    with pytest.raises(StartError, match="another process"):
        opened(tmp_path / "data")
    await store.aclose()


def users_file(*names: str) -> DefinitionsFile:
    users = [{"name": each, "password": "first", "tags": "administrator"} for each in names]
    content = json.dumps({"users": users, "vhosts": [{"name": "/"}]}).encode()
    return lambda: content


async def names_of_users(store: NodeStore) -> list[str]:
    names = [user.name for user in store.users.users()]
    await store.aclose()
    return names


async def test_definitions_are_imported_again_when_their_content_is_another(tmp_path: Path) -> None:
    store = await begun(tmp_path, 1, users_file("root", "eve"))
    await store.users.delete_user("eve")
    await store.users.set_tags("root", ("monitoring",))
    assert await names_of_users(store) == ["root"]
    store = await begun(tmp_path, 2, users_file("root", "eve"))
    assert store.users.get("root").tags == ("monitoring",)
    assert await names_of_users(store) == ["root"]
    store = await begun(tmp_path, 3, users_file("ann", "root"))
    assert store.users.get("root").tags == ("administrator",)
    assert await names_of_users(store) == ["ann", "root"]
    store = await begun(tmp_path, 4, users_file("root", "eve"))
    assert await names_of_users(store) == ["ann", "eve", "root"]


async def test_a_node_in_the_place_of_another_one_goes_on_without_an_import_that_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await begun(tmp_path, 1, users_file("root"))
    await store.vhosts.put(VhostRecord("/", limits={"max-queues": 0}))
    await store.aclose()

    def cannot_be() -> bytes:
        queue = {"name": "q", "vhost": "/", "durable": True}
        return json.dumps({"users": [{"name": "ann"}], "queues": [queue]}).encode()

    def unreadable() -> bytes:
        raise StartError("definitions d.json: cannot be read")

    for epoch, file, fault in (
        (2, cannot_be, InvalidDefinition),
        (4, unreadable, StartError),
        (6, lambda: b"{", StartError),
    ):
        with pytest.raises(fault) as refused:
            await begun(tmp_path, epoch, file)
        store = await begun(tmp_path, epoch + 1, file, goes_on=True)
        assert await names_of_users(store) == ["root"]
        assert f"without the definitions of its file: {refused.value}" in caplog.text


async def test_a_node_that_has_nothing_yet_does_not_go_on_without_its_first_definitions(
    tmp_path: Path,
) -> None:
    with pytest.raises(StartError):
        await begun(tmp_path, 1, lambda: b"{", goes_on=True)


async def test_what_was_imported_last_cannot_be_tried_out_fast(tmp_path: Path) -> None:
    content = users_file("root")()
    store = await begun(tmp_path, 1, lambda: content)
    noted = store.logs.metadata.get(b"definitions-file")
    assert noted is not None
    assert noted.value[16:] == scrypt(content, salt=noted.value[:16], n=2**14, r=8, p=1)
    await store.aclose()


async def test_no_permission_outlives_its_vhost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await begun(tmp_path, 1)
    users, topic = store.users, TopicPermission("amq.topic", ".*", ".*")
    await store.vhosts.add("v")
    await users.add_user("ann", b"")
    await users.set_permissions("ann", "v", FULL_PERMISSION)
    await users.set_topic_permission("ann", "v", topic)
    entries: list[list[bytes]] = []
    submit = store.logs.metadata_writer.submit

    def note(changes: Sequence[Change]) -> asyncio.Future[int]:
        entries.append([change.key for change in changes if change.value is None])
        return submit(changes)

    monkeypatch.setattr(store.logs.metadata_writer, "submit", note)
    await store.vhosts.delete("v")
    # One entry of the journal has all of it, or a crash between two would leave permissions for the next `v`.
    (together,) = [keys for keys in entries if b"vhosts/v" in keys]
    assert {key.partition(b"/")[0] for key in together} >= {b"permissions", b"topic-permissions"}
    assert users.permissions.of_user("ann") == users.permissions.topics_of_user("ann") == {}
    for late in (
        users.set_permissions("ann", "v", FULL_PERMISSION),
        users.set_topic_permission("ann", "v", topic),
        store.vhosts.set_limits("v", {"max-queues": 5}),
    ):
        with pytest.raises(VhostNotFound):
            await late
    assert [vhost.name for vhost in store.vhosts.all()] == ["/"]
    await store.aclose()
