"""A user without a tag declares as much as is taken: the node stays, and starts again in the same memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.sampling import sampled

pytestmark = pytest.mark.differs_from_rabbitmq("has no limit of definitions")

MIB = 1_048_576
BUDGET = 128 * MIB
# What a start may need beside a fifth more than the run before it.
START_BYTES = 64 * MIB
PROCESS_BYTES = 192 * MIB  # that the process takes without definitions: 100 MiB at rest


def long_text(number: int) -> dict[str, object]:
    return {"text": "x" * 64_000, "number": number}


def many_fields(number: int) -> dict[str, object]:
    return {f"{name:x}": True for name in range(8_000)} | {"number": number}


def long_list(number: int) -> dict[str, object]:
    return {"list": [number] * 7_000, "number": number}


def peak_bytes(broker: BrokerProcess) -> int:
    """The most resident memory that the process has had."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM"))


def bind_until_refused(
    channel: Channel, exchange: str, arguments: Callable[[int], dict[str, object]]
) -> int:
    """How many bindings were taken; the next one is refused because of the user's share."""
    for number in range(10_000):
        try:
            channel.queue_bind("q", exchange, str(number), arguments(number))
        except pika.exceptions.ChannelClosedByBroker as refused:
            told = refused.reply_code, refused.reply_text
            break
    assert told[0] == 406
    assert "user 'nobody' has definitions of" in told[1]
    return number


@pytest.mark.parametrize(
    ("arguments", "exchange"),
    sampled(product((long_text, many_fields, long_list), ("amq.headers", "amq.fanout")), 6),
)
def test_bindings_beyond_the_budget_are_refused_and_a_start_needs_little_more(
    tmp_path: Path, arguments: Callable[[int], dict[str, object]], exchange: str
) -> None:
    broker = BrokerProcess(tmp_path / "data", {"ROUTELOG_DEFINITIONS_BYTES": str(BUDGET)}).start()
    try:
        door = ManagementDoor(broker)
        name, password = door.add_user("nobody")
        url = broker.url.replace("guest:guest", f"{name}:{password}")
        channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
        channel.queue_declare("q", durable=True)
        bound = bind_until_refused(channel, exchange, arguments)
        assert bound > 40
        peak = peak_bytes(broker)
        assert peak < BUDGET + PROCESS_BYTES
        door.do("PUT", "queues", "/", "of another user", body={})
        for _ in range(2):
            broker.kill()
            broker.start()
            assert peak_bytes(broker) <= 1.2 * peak + START_BYTES
            listed = ManagementDoor(broker).get("queues", "/", "q", "bindings")
            assert len(listed) == bound + 1
    finally:
        broker.stop()


def test_arguments_above_their_limit_are_refused_on_the_channel(fresh_broker) -> None:
    broker = fresh_broker()
    clients = Clients(broker.url)
    large = {"text": "x" * 100_000}
    for declare in (
        lambda channel: channel.queue_declare("q", arguments=large),
        lambda channel: channel.exchange_declare("x", arguments=large),
        lambda channel: channel.queue_bind("there", "amq.headers", "", large),
        lambda channel: channel.exchange_bind("amq.topic", "amq.headers", "", large),
    ):
        channel = clients.channel()
        channel.queue_declare("there")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="larger than 65536 bytes"):
            declare(channel)
    clients.close()
