"""The real broker when the system refuses to write or sync: what its clients and its log are told."""

from __future__ import annotations

import re

import pika.exceptions
import pytest
from conftest import BrokerFactory
from crash.disks import disk_directories
from crash.disks.syscall_fault import syscall_fault
from pika.adapters.blocking_connection import BlockingChannel
from support.pika_client import PERSISTENT, Clients
from support.waiting import wait_until

pytestmark = pytest.mark.crash
tmp_path_factory = disk_directories.tmp_path_factory

QUEUE = "faults"
PUBLISHES_MAX = 1_000  # until one is refused: the first one after the fault should be


WRITE = "pwritev,pwritev2"  # the second one when it syncs, too: so is a commit written
JOURNAL = "journal/*.journal"
SEGMENTS = "logs/*/*/*.log"


@pytest.mark.parametrize(
    ("calls", "error", "names"),
    [
        (WRITE, "EIO", JOURNAL),
        (WRITE, "ENOSPC", JOURNAL),
        (WRITE, "EIO", SEGMENTS),
    ],
)
def test_publishers_are_told_and_a_restart_has_all_that_was_confirmed(
    fresh_broker: BrokerFactory, calls: str, error: str, names: str
) -> None:
    broker = fresh_broker(ROUTELOG_FLUSH_SECONDS="0.02")
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True)
    confirmed = [publish(channel, number) for number in range(3)]
    assert confirmed == [b"0", b"1", b"2"]
    wait_until(lambda: list(broker.data_dir.glob(names)))
    # RocksDB's files stay well.
    with syscall_fault(broker.pid, calls, error, broker.data_dir.glob(names)):
        number = publish_until_refused(channel, confirmed)
    # The disk is well again, and the node still takes nothing: what it has is still delivered.
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, number + 1)
    reader = clients.channel()
    assert reader.basic_get(QUEUE)[2] == b"0"
    told = [line for line in broker.log_text().splitlines() if re.search(r"\bCRITICAL\b", line)]
    assert len(told) == 1
    assert "accepts no more writes" in told[0]
    clients.close()
    assert broker.terminate() == 0
    broker.start()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    confirmed.append(publish(channel, number + 2))
    found = [channel.basic_get(QUEUE, auto_ack=True)[2] for _ in range(len(confirmed) + 2)]
    # A refused message may be there: it was written, and only its sync failed.
    assert [body for body in found if body in confirmed] == confirmed
    clients.close()


def publish(channel: BlockingChannel, number: int) -> bytes:
    """Publish a numbered message; returns its body when it is confirmed."""
    body = b"%d" % number
    channel.basic_publish("", QUEUE, body, PERSISTENT)
    return body


def publish_until_refused(channel: BlockingChannel, confirmed: list[bytes]) -> int:
    """Publish one by one; returns the number of the message that was refused."""
    for number in range(len(confirmed), PUBLISHES_MAX):
        try:
            confirmed.append(publish(channel, number))
        except pika.exceptions.NackError:
            return number
    raise AssertionError("nothing is refused")
