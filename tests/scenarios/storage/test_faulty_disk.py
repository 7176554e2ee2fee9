"""What clients meet when the journal cannot be synced, or only slowly."""

from __future__ import annotations

import shlex
import sys
import threading
from pathlib import Path

import pytest
from pamqp import commands
from pika.exceptions import AMQPConnectionError, NackError
from pika.spec import BasicProperties
from scenarios.clients.raw_client import message
from support.broker_process import COMMAND_VARIABLE
from support.pika_client import PERSISTENT, Clients, drain, ready_count
from support.waiting import wait_until

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import Connection

pytestmark = pytest.mark.differs_from_rabbitmq("its disk cannot be made to fail from here")

PROGRAM = Path(__file__).with_name("faulty_disk_broker.py")
PERSISTENT_FLAGS = b"\x10\0\2"  # property flags, and delivery mode 2
MIB = 1024 * 1024
PENDING_MIB = 32  # what the broker lets wait for its journal
BODY = b"x" * 65_536
BODIES_A_MIB = MIB // len(BODY)
BODIES = 3 * PENDING_MIB * BODIES_A_MIB
SETTLED_POLLS = 30  # equal counts in a row, with a round trip each: nothing moves any more


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """Where files make the disk of a broker fail or stall."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("ROUTELOG_TEST_FAULTS", str(folder))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    return folder


def test_a_duplicate_is_confirmed_no_sooner_than_what_it_is_a_duplicate_of(faults, fresh_broker):
    clients = Clients(fresh_broker().url)
    first, second = clients.channel(), clients.channel()
    arguments = {"x-cache-size": 9, "x-cache-persistence": "disk"}
    first.exchange_declare("once", "x-message-deduplication", durable=True, arguments=arguments)
    first.queue_declare("q", durable=True)
    first.queue_bind("q", "once")
    second.confirm_delivery()
    (faults / "stall").touch()
    keyed = BasicProperties(delivery_mode=2, headers={"x-deduplication-header": "k"})
    keyed_otherwise = BasicProperties(delivery_mode=2, headers={"x-deduplication-header": "l"})
    first.basic_publish("once", "", b"original", keyed)
    assert ready_count(first, "q") == 1
    confirmed = threading.Event()

    def publish_again():
        second.basic_publish("once", "", b"duplicate", keyed)
        confirmed.set()

    again = threading.Thread(target=publish_again)
    again.start()
    assert not confirmed.wait(0.3)
    (faults / "stall").unlink()
    again.join()
    assert confirmed.is_set()
    assert drain(first, "q") == [b"original"]
    (faults / "fail").touch()
    for _ in range(2):  # the second one is a duplicate of what is lost
        with pytest.raises(NackError):
            second.basic_publish("once", "", b"lost", keyed_otherwise)


@pytest.mark.parametrize("level", ["os", "disk"])
def test_a_failed_sync_is_final_until_a_restart(faults, fresh_broker, level):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("other", durable=True, arguments={"x-durability": level})
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"before", PERSISTENT)
    (faults / "fail").touch()
    with pytest.raises(NackError):
        channel.basic_publish("", "q", b"pending", PERSISTENT)
    (faults / "fail").unlink()  # a disk that works again is not believed
    for queue in ("q", "other"):
        with pytest.raises(NackError):
            channel.basic_publish("", queue, b"refused", PERSISTENT)
    unconfirmed = clients.channel()
    unconfirmed.basic_publish("", "q", b"unconfirmed", PERSISTENT)
    with pytest.raises(AMQPConnectionError):
        wait_until(lambda: False, unconfirmed.connection)
    # What it has in memory is still served.
    assert clients.channel().basic_get("q", auto_ack=True)[2] == b"before"
    clients.close()
    broker.restart()
    (said,) = (line for line in broker.log_text().splitlines() if "CRITICAL" in line)
    assert "the log cannot be written" in said
    assert "this node accepts no more writes" in said
    channel = clients.channel()
    left = drain(channel, "q")
    # The ack could not be kept, nor what was refused; what failed to sync may have been written.
    assert left[0] == b"before"
    assert set(left[1:]) <= {b"pending"}
    assert drain(channel, "other") == []
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"after", PERSISTENT)
    assert drain(channel, "q") == [b"after"]
    clients.close()


def test_publishers_wait_for_a_slow_disk_and_lose_nothing(faults, fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    publisher = Connection(broker.url)
    publisher.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    (faults / "stall").touch()
    publish = message("q", BODY, PERSISTENT_FLAGS)
    sending = threading.Thread(target=lambda: list(map(publisher.send, [publish] * BODIES)))
    sending.start()
    taken = settled_count(channel, at_least=PENDING_MIB * BODIES_A_MIB)
    assert taken < (PENDING_MIB + 4) * BODIES_A_MIB
    assert sending.is_alive()
    (faults / "stall").unlink()
    tally = ConfirmTally()
    while tally.confirmed < BODIES:
        tally.feed(publisher.receive())
    sending.join()
    assert ready_count(channel, "q") == BODIES
    publisher.close()
    clients.close()


def settled_count(channel, at_least: int) -> int:
    """How many messages the queue has when their number is large enough and stays the same."""
    counts: list[int] = []

    def settled() -> bool:
        counts.append(ready_count(channel, "q"))
        last = counts[-SETTLED_POLLS:]
        return len(last) == SETTLED_POLLS and last[0] == last[-1] >= at_least

    wait_until(settled, channel.connection, seconds=30)
    return counts[-1]
