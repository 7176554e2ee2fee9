"""Somebody else takes the last byte of the disk: consumers make room again, and a start works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from scenarios.clients.confirmed_publisher import WINDOW, number_of
from scenarios.storage.small_disk import (
    FILL_SECONDS_MAX,
    StartBroker,
    connected,
    fill,
    mounted_ext4,
    mounted_tmpfs,
    publishing,
    take_last_byte,
)
from support.pika_client import declare
from support.waiting import wait_until


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """One of each kind: with ext4, blocks are free again when its journal says so, not before."""
    with (mounted_tmpfs if request.param == "tmpfs" else mounted_ext4)(tmp_path) as directory:
        yield directory


def take(channel: BlockingChannel, got: list[int], is_enough: Callable[[], object]) -> None:
    """Consume and acknowledge until it is enough; adds the numbers of the messages."""
    channel.basic_qos(prefetch_count=1_000)
    deadline = time.monotonic() + FILL_SECONDS_MAX
    for deliver, _, body in channel.consume("q", inactivity_timeout=0.1):
        if deliver is not None:
            got.append(number_of(body))
            channel.basic_ack(deliver.delivery_tag)
        if (deliver is None or len(got) % 100 == 0) and is_enough():
            break
        assert time.monotonic() < deadline, "it never was enough"
    channel.cancel()


def test_a_disk_that_others_fill_to_the_last_byte_is_emptied_by_consumers(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    with connected(broker) as clients:
        channel = clients.channel()
        declare(channel, "q", durable=True)
        with publishing(broker, "q") as publisher:
            fill(publisher)
            take_last_byte(small_disk)
            confirmed = len(publisher.confirmed)
            got: list[int] = []
            take(channel, got, lambda: len(publisher.confirmed) > confirmed + WINDOW)
        assert not publisher.refused
        take(channel, got, lambda: publisher.confirmed <= set(got))
        assert publisher.confirmed <= set(got)
        assert got == sorted(set(got))
        declare(channel, "another", durable=True)
    assert broker.terminate() == 0


def test_a_killed_broker_starts_on_a_disk_without_a_free_byte_and_consumers_make_room(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    with connected(broker) as clients:
        declare(clients.channel(), "q", durable=True)
        with publishing(broker, "q") as publisher:
            fill(publisher)
            take_last_byte(small_disk)
            broker.kill()
    take_last_byte(small_disk)
    broker.start()
    with connected(broker) as clients:
        channel = clients.channel()
        with publishing(broker, "q", first=publisher.sent) as later:
            wait_until(lambda: later.blocked)
            assert not later.confirmed
            got: list[int] = []
            take(channel, got, lambda: later.confirmed and publisher.confirmed <= set(got))
            assert got == sorted(set(got))
        assert not later.refused
    assert broker.terminate() == 0
