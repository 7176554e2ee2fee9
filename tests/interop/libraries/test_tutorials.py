"""The essence of RabbitMQ's six tutorials, as its Python texts write them."""

from __future__ import annotations

import pika
from support.pika_client import PERSISTENT, Inbox, declare, round_trip
from support.waiting import wait_until


def test_one_hello_world(clients, name):
    sending = clients.channel()
    sending.queue_declare(queue=name)
    sending.basic_publish(exchange="", routing_key=name, body="Hello World!")
    receiving = clients.channel()
    receiving.queue_declare(queue=name)
    assert Inbox(receiving, name, auto_ack=True).wait_for(1).bodies == [b"Hello World!"]
    receiving.queue_delete(name)


def test_two_work_queues(clients, name):
    boss = clients.channel()
    boss.queue_declare(queue=name, durable=True)
    busy, idle = clients.channel(), clients.channel()
    inboxes = []
    for worker in (busy, idle):
        worker.basic_qos(prefetch_count=1)
        inboxes.append(Inbox(worker, name))
    for number in range(5):
        boss.basic_publish("", name, f"task {number}", PERSISTENT)

    def work() -> bool:
        if inboxes[1].deliveries and len(inboxes[1].deliveries) > len(done):
            done.append(inboxes[1].bodies[-1])
            idle.basic_ack(inboxes[1].delivery_tags[-1])
        return len(done) == 4

    done: list[bytes] = []
    wait_until(work, busy.connection, idle.connection)
    assert len(inboxes[0].bodies) == 1
    busy.connection.close()
    inboxes[1].wait_for(5)
    assert inboxes[1].redelivered == [False] * 4 + [True]
    assert sorted(inboxes[1].bodies) == [b"task %d" % number for number in range(5)]
    boss.queue_delete(name)


def test_three_publish_subscribe(clients, name):
    sending = clients.channel()
    sending.exchange_declare(exchange=name, exchange_type="fanout")
    sending.basic_publish(exchange=name, routing_key="", body="nobody listens")
    inboxes = []
    for _ in range(2):
        channel = clients.channel()
        queue = channel.queue_declare(queue="", exclusive=True).method.queue
        channel.queue_bind(exchange=name, queue=queue)
        inboxes.append(Inbox(channel, queue, auto_ack=True))
    sending.basic_publish(exchange=name, routing_key="", body="info: Hello World!")
    for inbox in inboxes:
        assert inbox.wait_for(1).bodies == [b"info: Hello World!"]
    sending.exchange_delete(name)


def subscribe(channel, exchange: str, *keys: str) -> Inbox:
    """A new exclusive queue, bound by each key, and its consumer."""
    queue = declare(channel)
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return Inbox(channel, queue, auto_ack=True)


def test_four_routing(channel, name):
    channel.exchange_declare(exchange=name, exchange_type="direct")
    errors = subscribe(channel, name, "error")
    everything = subscribe(channel, name, "info", "warning", "error")
    for severity in ("info", "error", "warning", "debug"):
        channel.basic_publish(name, severity, severity)
    assert everything.wait_for(3).bodies == [b"info", b"error", b"warning"]
    assert errors.wait_for(1).bodies == [b"error"]
    channel.exchange_delete(name)


def test_five_topics(channel, name):
    channel.exchange_declare(exchange=name, exchange_type="topic")
    orange = subscribe(channel, name, "*.orange.*")
    lazy = subscribe(channel, name, "*.*.rabbit", "lazy.#")
    for key in (
        "quick.orange.rabbit",
        "lazy.orange.elephant",
        "quick.orange.fox",
        "lazy.brown.fox",
        "lazy.pink.rabbit",
        "quick.brown.fox",
        "quick.orange.new.rabbit",
        "lazy.orange.new.rabbit",
    ):
        channel.basic_publish(name, key, key)
    assert orange.wait_for(3).bodies == [
        *(b"quick.orange.rabbit", b"lazy.orange.elephant", b"quick.orange.fox"),
    ]
    assert lazy.wait_for(5).bodies == [
        *(b"quick.orange.rabbit", b"lazy.orange.elephant", b"lazy.brown.fox"),
        *(b"lazy.pink.rabbit", b"lazy.orange.new.rabbit"),
    ]
    round_trip(channel)
    channel.exchange_delete(name)


def fibonacci(number: int) -> int:
    """The tutorial's remote procedure."""
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def test_six_remote_procedure_call(clients, name):
    server, client = clients.channel(), clients.channel()
    server.queue_declare(queue=name, exclusive=True)

    def on_request(channel, deliver, properties, body) -> None:
        channel.basic_publish(
            "",
            properties.reply_to,
            str(fibonacci(int(body))),
            pika.BasicProperties(correlation_id=properties.correlation_id),
        )
        channel.basic_ack(deliver.delivery_tag)

    server.basic_qos(prefetch_count=1)
    server.basic_consume(queue=name, on_message_callback=on_request)
    callback_queue = declare(client)
    replies = Inbox(client, callback_queue, auto_ack=True)
    for number in (10, 15):
        properties = pika.BasicProperties(reply_to=callback_queue, correlation_id=str(number))
        client.basic_publish("", name, str(number), properties)
    wait_until(lambda: len(replies.bodies) == 2, client.connection, server.connection)
    answers = {what.correlation_id: body for _, what, body in replies.deliveries}
    assert answers == {"10": b"55", "15": b"610"}
