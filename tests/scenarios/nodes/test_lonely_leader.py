"""What clients of a leader meet when too few other nodes store what it takes, and when they are back."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands
from pika.exceptions import ConnectionClosedByBroker, NackError
from scenarios.clients.raw_client import RawClient, message
from support.broker_process import COMMAND_VARIABLE
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, Inbox, drain, exists, ready_count, send
from support.sampling import sampled
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("its nodes cannot be made to fail from here")

PROGRAM = Path(__file__).with_name("lonely_leader.py")
SECONDS = 3.0
PENDING_BYTES = 32 * 1024 * 1024  # what the broker lets wait for its journal
BODY_BYTES = 65_536
COUNT = 2 * PENDING_BYTES // BODY_BYTES
PERSISTENT_FLAGS = b"\x10\0\2"  # property flags, and delivery mode 2


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """The file that keeps a broker's blocks from being committed."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("ROUTELOG_TEST_FAULTS", str(folder))
    monkeypatch.setenv("ROUTELOG_CLUSTER_CONFIRM_SECONDS", str(SECONDS))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    return folder / "alone"


def test_a_publish_is_refused_in_time_and_consumers_go_on(alone, fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel, consuming = clients.channel(), clients.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for number in range(3):
        channel.basic_publish("", "q", b"before %d" % number, PERSISTENT)
    consuming.basic_qos(prefetch_count=1)
    inbox = Inbox(consuming, "q").wait_for(1)
    alone.touch()
    started = time.monotonic()
    with pytest.raises(NackError):
        channel.basic_publish("", "q", b"not known", PERSISTENT)
    assert SECONDS <= time.monotonic() - started < WAIT_SECONDS
    for _ in range(2):
        consuming.basic_ack(inbox.delivery_tags[-1])
        inbox.wait_for(len(inbox.bodies) + 1)
    assert inbox.bodies == [b"before 0", b"before 1", b"before 2"]
    assert "publishes get basic.nack" in broker.log_text()
    alone.unlink()
    consuming.basic_ack(inbox.delivery_tags[-1])
    inbox.wait_for(4)  # it was committed after all
    assert inbox.bodies[-1] == b"not known"
    channel.basic_publish("", "q", b"after", PERSISTENT)
    clients.close()


@pytest.mark.parametrize("what", sampled(["transaction", "declaration"], 2))
def test_a_change_that_is_not_stored_in_time_is_an_error_and_may_happen_yet(
    alone, fresh_broker, what
):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    send(channel, "q", b"settled")
    if what == "transaction":
        channel.tx_select()
        tag = channel.basic_get("q")[0].delivery_tag
        channel.basic_publish("", "q", b"published", PERSISTENT)
        channel.basic_ack(tag)
    alone.touch()
    change = channel.tx_commit
    if what == "declaration":
        change = partial(channel.queue_declare, "other", durable=True)
    door = ManagementDoor(broker)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        change()
    assert door.ask("PUT", "queues", "/", "third", body={})[0] == 503
    assert closed.value.reply_code == 541
    assert f"too few nodes have stored it in {SECONDS:g} s" in closed.value.reply_text
    alone.unlink()
    channel = clients.channel()
    wait_until(lambda: exists(channel.connection, "third"))
    if what == "transaction":
        wait_until(lambda: ready_count(channel, "q") == 1)
        assert drain(channel, "q") == [b"published"]
    else:
        assert exists(channel.connection, "other")
        channel.queue_declare("other", durable=True)
    clients.close()


def test_publishers_are_blocked_before_what_waits_fills_the_memory(alone, fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    publisher = RawClient(broker.host, broker.port)
    publisher.open()
    publisher.open_channel()
    publisher.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    alone.touch()
    publish = message("q", b"x" * BODY_BYTES, PERSISTENT_FLAGS)
    sending = threading.Thread(target=lambda: list(map(publisher.send_bytes, [publish] * COUNT)))
    sending.start()
    answers = answered(publisher, commands.Connection.Blocked)
    assert answers.pop().reason == "waiting for a slow disk"
    taken = ready_count(channel, "q")
    assert PENDING_BYTES <= taken * BODY_BYTES < 1.2 * PENDING_BYTES
    while not answers or answers[-1].delivery_tag < taken:
        answers += answered(publisher, commands.Basic.Nack)
    alone.unlink()
    assert all(isinstance(each, commands.Basic.Nack) for each in answers)
    answered(publisher, commands.Connection.Unblocked)
    while answers[-1].delivery_tag < COUNT:
        answers += answered(publisher, commands.Basic.Ack)
    sending.join()
    assert ready_count(channel, "q") == COUNT
    publisher.socket.close()
    clients.close()


def answered(client: RawClient, kind: type) -> list[Any]:
    """What the broker sends, up to the first of a kind."""
    answers: list[Any] = []
    while not answers or not isinstance(answers[-1], kind):
        answers.append(client.receive(WAIT_SECONDS)[1])
    return answers
