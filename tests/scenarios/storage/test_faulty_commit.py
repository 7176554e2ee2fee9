"""A fault of the broker in the midst of a large commit: nothing of it is there, neither at once nor later."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pika.exceptions import AMQPConnectionError
from support.broker_process import COMMAND_VARIABLE, BrokerProcess
from support.pika_client import PERSISTENT, Clients, Inbox, ready_count
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("no fault can be put into it from here")

PROGRAM = Path(__file__).with_name("faulty_commit_broker.py")
QUEUES = 200  # far more than three steps take
INPUTS = 20


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_commit_that_fails_leaves_nothing(
    step: int, fresh_broker: Callable[[], BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUTELOG_TEST_STEP", str(step))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    broker = fresh_broker()
    clients = Clients(broker.url)
    setup = clients.channel()
    setup.queue_declare("in", durable=True)
    setup.exchange_declare("out", "fanout", durable=True)
    for number in range(QUEUES):
        setup.queue_declare(f"out-{number}", durable=True)
        setup.queue_bind(f"out-{number}", "out")
    setup.confirm_delivery()
    for number in range(INPUTS):
        setup.basic_publish("", "in", b"%d" % number, PERSISTENT)
    readers = clients.channel()
    inboxes = [Inbox(readers, f"out-{number}") for number in range(0, QUEUES, 20)]

    tx = clients.channel()
    tx.tx_select()
    for _ in range(INPUTS):
        method, _, _ = tx.basic_get("in")
        tx.basic_ack(method.delivery_tag)
    tx.basic_publish("out", "", b"made of them", PERSISTENT)
    with pytest.raises(AMQPConnectionError) as caught:
        tx.tx_commit()
    assert caught.value.args[0] == 541

    wait_until(lambda: ready_count(setup, "in") == INPUTS)
    assert outputs(setup) == 0
    setup.basic_publish("", "out-0", b"of another", PERSISTENT)
    wait_until(lambda: readers.connection.process_data_events(0) or inboxes[0].bodies)
    assert [inbox.bodies for inbox in inboxes] == [[b"of another"], *[[]] * (len(inboxes) - 1)]

    broker.kill()
    broker.start()
    setup = Clients(broker.url).channel()
    assert ready_count(setup, "in") == INPUTS
    assert outputs(setup) == 1
    assert setup.basic_get("out-0")[2] == b"of another"


def outputs(channel) -> int:
    """How many messages are ready in all queues of the output."""
    return sum(ready_count(channel, f"out-{number}") for number in range(QUEUES))
