"""Whole brokers join a cluster that runs, leave it, and take the place of one that is dead."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.queue_load import QueueLoad
from cluster.brokers.test_brokers import drained, publish
from cluster.brokers.test_leading import http_address
from cluster.brokers.verdict import Verdict
from support.management_door import ManagementDoor
from support.waiting import wait_until

from routelog.mirror_cluster.coordination.managed_etcd import found_members, remove_member

READY = "health", "checks", "ready-to-serve-clients"
JOIN_SECONDS_MAX = 30.0


async def members(cluster: MirroredBrokers) -> set[str]:
    """Which members of the managed etcd have started, by identity; one that is behind answers, too."""
    async with cluster.etcd() as gateway:
        return {each.id for each in await found_members(gateway) if each.client_urls}


async def has_joined(cluster: MirroredBrokers, count: int, *, without: str = "") -> None:
    """Wait until it has so many, and one no longer: it takes no other one for 5 s behind a change."""
    async with asyncio.timeout(JOIN_SECONDS_MAX):
        while len(found := await members(cluster)) != count or without in found:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def door_of(cluster: MirroredBrokers, name: str) -> ManagementDoor:
    """The HTTP API of a node that need not lead."""
    door = ManagementDoor(cluster.leader())
    door.address = urlsplit(http_address(cluster.brokers[name]))
    return door


def fails(door: ManagementDoor) -> bool:
    """Whether a node says that it is not ready for clients."""
    status, _ = door.ask("GET", *READY)
    assert status in (200, 503)
    return status == 503


@pytest.mark.long
def test_all_but_one_leave_and_the_last_goes_on(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, ROUTELOG_CLUSTER_MIN_IN_SYNC="1") as cluster:
        last = cluster.until_led(in_sync=3)["leader"][0]
        publish(cluster.brokers[last], "of three")
        for name in cluster.brokers.keys() - {last}:
            door = door_of(cluster, name)
            assert not fails(door)
            told, code = cluster.ask("leave", f"{name}@test")
            assert (told["done"], code) == (True, 0), (told, cluster.log_text())
            wait_until(partial(fails, door))
            assert "it has no copy" in door.ask("GET", *READY)[1]["reason"]
            assert door.ask("GET", "overview")[1]["node"] != f"{name}@test"
            assert cluster.brokers[name].terminate() == 0
        publish(cluster.brokers[last], "of one")
        told, code = cluster.ask("leave", f"{last}@test")
        assert (told["done"], code) == (False, 1)
        assert "start that one without cluster_nodes" in told["reason"]
        cluster.brokers[last].restart()
        assert drained(cluster.brokers[last]) == ["of three", "of one"]


@pytest.mark.long
async def test_under_load_one_joins_the_leader_leaves_and_a_dead_one_is_replaced(tmp_path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        load = QueueLoad({name: broker.url for name, broker in cluster.brokers.items()})
        load.start()

        async def done(*command: str) -> None:
            told, code = await asyncio.to_thread(cluster.ask, *command)
            assert (told["done"], code) == (True, 0), (told, cluster.log_text())

        async def joined(node: str) -> None:
            await asyncio.to_thread(cluster.until_told, f"{node} without a copy")
            await done("join", node)

        async def in_sync(count: int) -> set[str]:
            shard = await asyncio.to_thread(cluster.until_led, in_sync=count)
            assert len(shard["replicas"]) == count
            return set(shard["in_sync"])

        try:
            await load.until_confirmed(0)
            await asyncio.to_thread(cluster.add("d").start)
            await joined("d@test")
            assert "d@test" in await in_sync(4)
            await has_joined(cluster, 4)

            first = cluster.until_led()["leader"]
            await done("leave", first)
            assert first not in await in_sync(3)
            await has_joined(cluster, 3)

            dead = next(
                name
                for name in cluster.brokers
                if name not in ("d", first[0], cluster.until_led()["leader"][0])
            )
            cluster.brokers[dead].kill()
            await done("leave", f"{dead}@test")
            await asyncio.to_thread(cluster.add("e").start)
            cluster.forget(dead)
            await joined("e@test")
            assert "e@test" in await in_sync(3)
            await has_joined(cluster, 3)
            await joined(first)  # it has been running since it left
            assert first in await in_sync(4)
            await has_joined(cluster, 4)

            # Removed by hand, it ends, and another one takes its place.
            async with cluster.etcd() as gateway:
                port = int(cluster.addresses[first].rpartition(":")[2])
                peer_url = f"https://127.0.0.1:{port + 2}"
                removed = next(
                    each.id for each in await found_members(gateway) if peer_url in each.peer_urls
                )
                await remove_member(peer_url, gateway)
            await has_joined(cluster, 4, without=removed)
            await load.stop_publishing()
            await load.drain(20)
        finally:
            await load.stop()
        told, code = await asyncio.to_thread(
            cluster.ask, "verify"
        )  # at one position: all come so far
        assert (told["equal"], told["complete"], code) == (True, True, 0), told
    directories = {name: broker.data_dir for name, broker in cluster.brokers.items()}
    verdict = Verdict.of(load, directories, [])
    assert not (verdict.lost + verdict.missing + verdict.doubled)
    assert not verdict.differences
