"""`routelog cluster verify`: three brokers that run have the same, and what one has otherwise is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pika
import pytest
from cluster.brokers.lanes import QUEUE
from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.queue_load import QueueLoad

from routelog.log_backend import crc32c
from routelog.log_backend.records.record_batch import HEADER_BYTES, batch_bytes, decode_batch


@pytest.mark.long
async def test_nodes_are_compared_under_load_and_one_that_has_something_else_is_repaired(
    tmp_path: Path,
) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        publish_what_only_a_leader_has(cluster.leader().url)
        load = QueueLoad({name: broker.url for name, broker in cluster.brokers.items()})
        load.start()
        try:
            await load.until_confirmed(0)
            told, code = await asyncio.to_thread(cluster.ask, "verify")
        finally:
            await load.stop()
        assert (told["equal"], told["complete"], code) == (True, True, 0), (
            told,
            cluster.log_text(),
        )
        assert all(node["records"] for node in told["nodes"]), told
        assert len({node["digest"] for node in told["nodes"]}) == 1

        leader = cluster.leader()
        name, follower = next(each for each in cluster.brokers.items() if each[1] is not leader)
        follower.kill()
        offset = changed_record(follower.data_dir)
        follower.start()
        cluster.until_led(in_sync=3)
        told, code = cluster.ask("verify")
        assert (told["equal"], told["complete"], code) == (False, True, 1), told
        (found,) = told["differences"]
        assert (found["queue"], found["first"], found["count"]) == (QUEUE, offset, 1)
        assert (found["nodes"], len(found["others"])) == ([f"{name}@test"], 2)
        assert told["summary"].endswith(f"`routelog cluster repair {name}@test`"), told

        # As a leader it hands over first.
        told, code = cluster.ask("transfer", "--to", f"{name}@test")
        assert code == 0, (told, cluster.log_text())
        cluster.until_led(in_sync=3)
        told, code = cluster.ask("repair", f"{name}@test", "--timeout", "120")
        assert (told["done"], code) == (True, 0), (told, cluster.log_text())
        assert cluster.until_led(in_sync=3)["leader"] != f"{name}@test"
        told, code = cluster.ask("verify")
        assert (told["equal"], told["complete"], code) == (True, True, 0), told


def publish_what_only_a_leader_has(url: str) -> None:
    """Leave a transient message, and a persistent one in a queue in memory."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("waiting", durable=True)
    channel.queue_declare("in memory", durable=True, arguments={"x-durability": "memory"})
    channel.basic_publish("", "waiting", b"transient")
    persistent = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", "in memory", b"persistent", persistent)
    channel.basic_publish("", "waiting", b"persistent", persistent)
    connection.close()


def changed_record(data: Path) -> int:
    """Change a byte of a stored record, and make all checksums right again; returns its offset."""
    (segment,) = data.glob(f"logs/*/{QUEUE}-0/*.log")
    content = bytearray(segment.read_bytes())
    batch = decode_batch(content, 0)
    size = batch_bytes(content, 0)
    records = batch.records
    content[HEADER_BYTES + records.bodies_at] ^= 1
    content[12:16] = crc32c(bytes(content[HEADER_BYTES:size])).to_bytes(4, "little")
    content[8:12] = crc32c(bytes(content[12:HEADER_BYTES])).to_bytes(4, "little")
    decode_batch(content, 0)
    segment.write_bytes(content)
    return int(batch.base_offset)
