"""All vhosts of a node, and partition numbers that are given once."""

import asyncio
from pathlib import Path

import pytest
from queue_samples import fill, running_node

from exchanges import InvalidName
from vhosts import QueueProperties, VhostNotFound

CONNECTION = object()


async def test_a_vhost_is_made_once_and_found_again(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhost = await node.vhosts.add("a/b %")
        assert await node.vhosts.add("a/b %") is vhost
        assert node.vhosts.get("a/b %") is vhost
    async with running_node(tmp_path) as node:
        assert node.vhosts.get("a/b %").name == "a/b %"


async def test_two_who_add_one_vhost_get_the_same(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        first, second = await asyncio.gather(node.vhosts.add("v"), node.vhosts.add("v"))
        assert first is second


async def test_an_unknown_vhost_is_not_found(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        for name in ("", "nowhere", "//", "/ "):
            with pytest.raises(VhostNotFound) as caught:
                node.vhosts.get(name)
            assert str(caught.value) == f"vhost {name} not found"


async def test_a_bad_name_makes_no_vhost(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        with pytest.raises(InvalidName):
            await node.vhosts.add("v" * 256)
        with pytest.raises(VhostNotFound):
            node.vhosts.get("v" * 256)


async def test_vhosts_do_not_share_names(tmp_path: Path) -> None:
    properties = QueueProperties("q", durable=True)
    async with running_node(tmp_path) as node:
        for name, count in (("a", 1), ("a/q", 2), ("/", 3)):
            vhost = await node.vhosts.add(name)
            queue, done = vhost.declare_queue(properties, CONNECTION)
            assert done is not None
            await done
            fill(queue, count)
        await node.vhosts.add("b")
    async with running_node(tmp_path) as node:
        ready = {name: node.vhosts.get(name).queues["q"].ready for name in ("a", "a/q", "/")}
        assert ready == {"a": 1, "a/q": 2, "/": 3}
        assert node.vhosts.get("b").queues == {}


async def test_partition_numbers_are_never_given_again(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        async with running_node(tmp_path) as node:
            for at in range(3):
                properties = QueueProperties(f"q{at}", durable=at != 1)
                queue, done = node.vhost.declare_queue(properties, CONNECTION)
                if done is not None:
                    await done
                    numbers.append(queue.partitions[0].log.number)
                deleted = node.vhost.delete_queue(queue)[1]
                if deleted is not None:
                    await deleted
    assert len(numbers) == 6
    assert numbers == sorted(set(numbers))
