"""tx: publishes and settlements that take effect together, with the commit or never."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker
from support.pika_client import declare, drain, ready_count, send
from support.waiting import wait_until

from routelog.log_backend.doors.randomness import random_name

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def plain(connection):
    """A channel beside the transactional one, on the same connection."""
    return connection.channel()


@pytest.fixture
def tx(connection):
    """A transactional channel."""
    channel = connection.channel()
    channel.tx_select()
    return channel


def get(channel, queue: str) -> int:
    method, _, _ = channel.basic_get(queue)
    return method.delivery_tag


def refused(channel, act) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as caught:
        act(channel)
    return caught.value.reply_code, caught.value.reply_text


def test_publishes_come_with_the_commit(tx, plain) -> None:
    queue = declare(plain)
    tx.basic_publish("", queue, b"a")
    tx.basic_publish("", queue, b"b", PERSISTENT)
    assert ready_count(plain, queue) == 0
    tx.tx_commit()
    assert ready_count(plain, queue) == 2
    assert drain(plain, queue) == [b"a", b"b"]


def test_a_rolled_back_transaction_leaves_nothing(tx, plain) -> None:
    queue = declare(plain)
    tx.basic_publish("", queue, b"never")
    tx.tx_rollback()
    tx.basic_publish("", queue, b"kept")
    tx.tx_commit()
    assert drain(plain, queue) == [b"kept"]


def test_acks_count_with_the_commit(connection, tx, plain) -> None:
    queue = declare(plain)
    send(plain, queue, b"a", b"b")
    tx.basic_ack(get(tx, queue))
    tx.tx_commit()
    tx.basic_ack(get(tx, queue))
    tx.close()
    wait_until(lambda: ready_count(plain, queue) == 1)
    assert drain(plain, queue) == [b"b"]


def test_rolled_back_acks_leave_their_deliveries_unsettled(tx, plain) -> None:
    queue = declare(plain)
    send(plain, queue, b"a", b"b", b"c")
    tags = [get(tx, queue) for _ in range(3)]
    tx.basic_ack(tags[2])
    tx.basic_ack(tags[0])
    tx.tx_rollback()
    assert ready_count(plain, queue) == 0
    tx.basic_ack(tags[2], multiple=True)  # all three are there to be acknowledged again
    tx.tx_commit()
    tx.close()
    assert ready_count(plain, queue) == 0


def test_a_tag_settled_twice_in_one_transaction_is_unknown(tx, plain) -> None:
    queue = declare(plain)
    send(plain, queue, b"a")
    tag = get(tx, queue)
    tx.basic_ack(tag)

    def again(channel) -> None:
        channel.basic_ack(tag)
        channel.tx_commit()

    code, text = refused(tx, again)
    assert (code, text) == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")
    wait_until(lambda: ready_count(plain, queue) == 1)  # the first ack was never committed


def test_rejects_and_requeues_count_with_the_commit(tx, plain) -> None:
    dead = declare(plain)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = declare(plain, arguments=arguments)
    send(plain, queue, b"back", b"dead", b"gone")
    tx.basic_nack(get(tx, queue), requeue=True)
    tx.basic_reject(get(tx, queue), requeue=False)
    tx.basic_ack(get(tx, queue))
    assert (ready_count(plain, queue), ready_count(plain, dead)) == (0, 0)
    tx.tx_commit()
    wait_until(lambda: ready_count(plain, dead) == 1)
    assert (drain(plain, queue), drain(plain, dead)) == ([b"back"], [b"dead"])


def test_what_no_queue_gets_is_returned_before_the_commit_is_answered(tx) -> None:
    returned = []
    tx.add_on_return_callback(lambda *parts: returned.append((parts[1].reply_code, parts[3])))
    tx.basic_publish("", random_name(), b"nobody", mandatory=True)
    tx.connection.process_data_events(time_limit=0.05)
    assert returned == []
    tx.tx_commit()
    tx.connection.process_data_events()
    assert returned == [(312, b"nobody")]


@pytest.mark.differs_from_rabbitmq("what other queues take of the transaction stays in them")
def test_a_full_queue_refuses_the_whole_transaction(connection, tx, plain) -> None:
    full = declare(plain, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    other, source = declare(plain), declare(plain)
    send(plain, full, b"1")
    send(plain, source, b"ack me")
    tx.basic_ack(get(tx, source))
    for queue in (other, full, full):
        tx.basic_publish("", queue, b"x")
    code, text = refused(tx, lambda channel: channel.tx_commit())
    assert code == 406
    assert text.startswith(f"PRECONDITION_FAILED - transaction refused, queue '{full}'")
    wait_until(lambda: ready_count(plain, source) == 1)
    assert (ready_count(plain, full), ready_count(plain, other)) == (1, 0)


def test_the_exchange_of_a_transaction_may_go_before_its_commit(tx, plain) -> None:
    queue, exchange = declare(plain), random_name()
    plain.exchange_declare(exchange)
    plain.queue_bind(queue, exchange, "k")
    tx.basic_publish("", queue, b"not alone")
    tx.basic_publish(exchange, "k", b"x")
    plain.connection.process_data_events()
    tx.basic_qos()  # what was published before is with the broker
    plain.exchange_delete(exchange)
    code, _ = refused(tx, lambda channel: channel.tx_commit())
    assert code == 404
    assert ready_count(plain, queue) == 0


@pytest.mark.parametrize("first", ["tx", "confirm"])
def test_confirms_and_transactions_exclude_each_other(channel, first) -> None:
    if first == "tx":
        channel.tx_select()
        code, text = refused(channel, lambda each: each.confirm_delivery())
        assert text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    else:
        channel.confirm_delivery()
        code, text = refused(channel, lambda each: each.tx_select())
        assert text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    assert code == 406


@pytest.mark.parametrize("act", ["tx_commit", "tx_rollback"])
def test_without_select_there_is_nothing_to_end(channel, act) -> None:
    code, text = refused(channel, lambda each: getattr(each, act)())
    assert (code, text) == (406, "PRECONDITION_FAILED - channel is not transactional")


def test_a_committed_transaction_outlives_a_kill(fresh_broker) -> None:
    broker = fresh_broker()
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    queues = ["source", "left", "right"]
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "source", b"%d" % number, PERSISTENT)
    tx = connection.channel()
    tx.tx_select()
    for number in range(10):
        tx.basic_ack(get(tx, "source"))
        for queue in ("left", "right"):
            tx.basic_publish("", queue, b"%d" % number, PERSISTENT)
        if number < 7:
            tx.tx_commit()
    broker.kill()
    broker.start()
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    assert [ready_count(channel, queue) for queue in queues] == [3, 7, 7]
    assert drain(channel, "left") == drain(channel, "right") == [b"%d" % at for at in range(7)]
    assert drain(channel, "source") == [b"7", b"8", b"9"]
