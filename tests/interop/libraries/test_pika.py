"""pika's BlockingConnection: publishing, routing, consuming, acknowledging, transactions."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError
from support.pika_client import Inbox, declare, drain, exists, ready_count, round_trip, send
from support.waiting import wait_until


def test_a_published_message_is_consumed_with_what_it_was_published_with(channel, name):
    channel.exchange_declare(name, "direct", auto_delete=True)
    queue = declare(channel)
    channel.queue_bind(queue, name, "key")
    sent = pika.BasicProperties(content_type="text/plain", headers={"n": 1}, message_id="m-1")
    channel.basic_publish(name, "key", b"hello", sent)
    deliver, properties, body = Inbox(channel, queue, auto_ack=True).wait_for(1).deliveries[0]
    assert body == b"hello"
    assert properties == sent
    assert (deliver.exchange, deliver.routing_key, deliver.redelivered) == (name, "key", False)
    assert deliver.delivery_tag == 1


def test_messages_arrive_in_the_order_they_were_published(channel):
    queue = declare(channel)
    bodies = [b"%d" % number for number in range(1_000)]
    send(channel, queue, *bodies)
    assert Inbox(channel, queue, auto_ack=True).wait_for(1_000).bodies == bodies


def test_get_tells_how_many_messages_remain_and_when_there_is_none(channel):
    queue = declare(channel)
    send(channel, queue, b"a", b"b", b"c")
    first, _, body = channel.basic_get(queue)
    assert (first.message_count, body) == (2, b"a")
    channel.basic_ack(first.delivery_tag)
    assert drain(channel, queue) == [b"b", b"c"]
    assert channel.basic_get(queue) == (None, None, None)


def test_an_acked_message_is_gone_and_an_unacked_one_returns_with_its_channel(connection):
    channel = connection.channel()
    queue = declare(channel)
    send(channel, queue, b"done", b"left")
    done, _, _ = channel.basic_get(queue)
    channel.basic_get(queue)
    channel.basic_ack(done.delivery_tag)
    channel.close()
    again = connection.channel()
    wait_until(lambda: ready_count(again, queue) == 1)
    found, _, body = again.basic_get(queue, auto_ack=True)
    assert (body, found.redelivered) == (b"left", True)


@pytest.mark.parametrize("refuse", ["basic_nack", "basic_reject"])
def test_a_message_refused_with_requeue_is_delivered_again(channel, refuse):
    queue = declare(channel)
    send(channel, queue, b"again")
    inbox = Inbox(channel, queue).wait_for(1)
    getattr(channel, refuse)(inbox.delivery_tags[0], requeue=True)
    inbox.wait_for(2)
    assert inbox.bodies == [b"again", b"again"]
    assert inbox.redelivered == [False, True]


@pytest.mark.parametrize("refuse", ["basic_nack", "basic_reject"])
def test_a_message_refused_without_requeue_is_dropped(channel, refuse):
    queue = declare(channel)
    send(channel, queue, b"bad", b"good")
    found, _, _ = channel.basic_get(queue)
    getattr(channel, refuse)(found.delivery_tag, requeue=False)
    assert drain(channel, queue) == [b"good"]


def test_several_messages_are_nacked_at_once(channel):
    queue = declare(channel)
    send(channel, queue, b"a", b"b", b"c", b"d")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=False)
    channel.basic_nack(tags[2], requeue=True)
    assert drain(channel, queue) == [b"c", b"d"]


def test_recover_returns_all_unacked_messages_in_order(channel):
    queue = declare(channel)
    send(channel, queue, b"a", b"b", b"c")
    for _ in range(3):
        channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    first, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, first.redelivered) == (b"a", True)
    assert drain(channel, queue) == [b"b", b"c"]


def test_a_confirmed_publish_returns_when_the_message_is_in_the_queue(clients):
    channel, other = clients.channel(), clients.channel()
    queue = declare(channel, auto_delete=True)
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, mandatory=True)
        assert ready_count(other, queue) == number + 1
    channel.queue_delete(queue)


def test_a_mandatory_message_without_a_queue_is_unroutable(channel):
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("amq.direct", "nobody", b"lost", mandatory=True)
    [returned] = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
    assert returned.body == b"lost"


def test_an_unroutable_message_that_is_not_mandatory_is_confirmed(channel):
    channel.confirm_delivery()
    try:
        channel.basic_publish("amq.direct", "nobody", b"lost")
    except NackError:
        pytest.fail("the broker nacked a message nobody wanted")


def test_a_returned_message_reaches_the_callback_with_its_properties(channel):
    returned = []
    channel.add_on_return_callback(lambda *what: returned.append(what[1:]))
    properties = pika.BasicProperties(message_id="m-1", headers={"k": "v"})
    channel.basic_publish("", "nobody", b"back", properties, mandatory=True)
    wait_until(lambda: returned, channel.connection)
    method, back, body = returned[0]
    assert (method.reply_code, method.routing_key, body) == (312, "nobody", b"back")
    assert back == properties


ROUTES = [
    ("direct", "a.b", "a.b", True),
    ("direct", "a.b", "a.c", False),
    ("fanout", "a.b", "whatever", True),
    ("topic", "a.*", "a.b", True),
    ("topic", "a.*", "a", False),
    ("topic", "a.*", "a.b.c", False),
    ("topic", "a.#", "a", True),
    ("topic", "a.#", "a.b.c", True),
    ("topic", "#.c", "a.b.c", True),
    ("topic", "#", "", True),
    ("topic", "*", "", False),
    ("topic", "a.#.b", "a.b", True),
    ("topic", "a.#.b", "a.x.y.b", True),
    ("topic", "a.*.b", "a..b", True),
]


@pytest.mark.parametrize(("kind", "binding", "key", "arrives"), ROUTES)
def test_a_key_is_routed_by_the_rules_of_its_exchange(channel, kind, binding, key, arrives):
    queue = declare(channel)
    channel.queue_bind(queue, f"amq.{kind}", binding)
    channel.basic_publish(f"amq.{kind}", key, b"x")
    assert drain(channel, queue) == [b"x"] * arrives


HEADER_MATCHES = [
    ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": True}, True),
    ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
    ({"a": 1, "b": "x"}, {"a": 1}, False),
    ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
    ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"}, False),
    ({"x-match": "all", "a": None}, {"a": "anything"}, True),
    ({"x-match": "all", "a": "1"}, {"a": 1}, False),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "all", "x-a": 1}, {}, True),
    ({"x-match": "all-with-x", "x-a": 1}, {}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
]


@pytest.mark.parametrize(("binding", "headers", "arrives"), HEADER_MATCHES)
def test_headers_are_matched_as_the_binding_asks(channel, binding, headers, arrives):
    queue = declare(channel)
    channel.queue_bind(queue, "amq.headers", arguments=binding)
    channel.basic_publish("amq.headers", "", b"x", pika.BasicProperties(headers=headers))
    assert drain(channel, queue) == [b"x"] * arrives


def test_a_queue_bound_twice_receives_one_copy(channel):
    queue = declare(channel)
    channel.queue_bind(queue, "amq.topic", "a.#")
    channel.queue_bind(queue, "amq.topic", "#.b")
    channel.basic_publish("amq.topic", "a.b", b"x")
    assert drain(channel, queue) == [b"x"]


def test_an_unbound_queue_receives_nothing_more(channel):
    queue = declare(channel)
    channel.queue_bind(queue, "amq.direct", queue)
    channel.basic_publish("amq.direct", queue, b"before")
    channel.queue_unbind(queue, "amq.direct", queue)
    channel.basic_publish("amq.direct", queue, b"after")
    assert drain(channel, queue) == [b"before"]


def test_exchanges_pass_messages_on_to_exchanges_bound_to_them(channel, name):
    source, middle = f"{name}.source", f"{name}.middle"
    channel.exchange_declare(source, "topic", auto_delete=True)
    channel.exchange_declare(middle, "direct", auto_delete=True)
    channel.exchange_bind(middle, source, "a.#")
    queue = declare(channel)
    channel.queue_bind(queue, middle, "a.b")
    for key in ("a.b", "a.c", "b.b"):
        channel.basic_publish(source, key, key.encode())
    assert drain(channel, queue) == [b"a.b"]
    channel.exchange_unbind(middle, source, "a.#")
    with pytest.raises(ChannelClosedByBroker, match="404"):
        channel.exchange_declare(source, passive=True)


def test_exchanges_bound_in_a_circle_deliver_once(channel, name):
    first, second = f"{name}.1", f"{name}.2"
    for exchange in (first, second):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(first, second)
    channel.exchange_bind(second, first)
    queue = declare(channel)
    channel.queue_bind(queue, first)
    channel.queue_bind(queue, second)
    channel.basic_publish(first, "", b"x")
    assert drain(channel, queue) == [b"x"]
    for exchange in (first, second):
        channel.exchange_delete(exchange)


def test_what_no_queue_wanted_goes_to_the_alternate_exchange(channel, name):
    alternate = f"{name}.alternate"
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": alternate})
    wanted, unwanted = declare(channel), declare(channel)
    channel.queue_bind(wanted, name, "wanted")
    channel.queue_bind(unwanted, alternate)
    channel.confirm_delivery()
    for key in ("wanted", "other"):
        channel.basic_publish(name, key, key.encode(), mandatory=True)
    assert (drain(channel, wanted), drain(channel, unwanted)) == ([b"wanted"], [b"other"])
    channel.queue_unbind(unwanted, alternate)
    with pytest.raises(UnroutableError):
        channel.basic_publish(name, "other", b"x", mandatory=True)
    channel.exchange_delete(name)
    channel.exchange_delete(alternate)


def test_copies_go_to_the_keys_in_cc_and_bcc_and_only_cc_is_told(channel):
    queues = [declare(channel) for _ in range(3)]
    headers = {"CC": [queues[1]], "BCC": [queues[2]]}
    channel.basic_publish("", queues[0], b"x", pika.BasicProperties(headers=headers))
    for queue in queues:
        _, properties, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"x"
        assert properties.headers == {"CC": [queues[1]]}


def test_a_server_named_queue_has_a_name_of_its_own_that_stands_for_the_empty_one(channel):
    first, second = declare(channel), declare(channel)
    assert first.startswith("amq.gen-")
    assert second != first
    send(channel, second, b"x")
    assert channel.queue_purge("").method.message_count == 1


def test_a_passive_declare_tells_messages_and_consumers(clients):
    channel = clients.channel()
    queue = declare(channel, auto_delete=True)
    send(channel, queue, b"a", b"b")
    other = clients.channel()
    declared = other.queue_declare(queue, passive=True).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == (queue, 2, 0)
    Inbox(channel, queue).wait_for(2)
    declared = other.queue_declare(queue, passive=True).method
    assert (declared.message_count, declared.consumer_count) == (0, 1)


def test_an_auto_delete_queue_goes_with_its_last_consumer(channel):
    queue = declare(channel, auto_delete=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    channel.basic_cancel(first.tag)
    assert exists(channel.connection, queue)
    channel.basic_cancel(second.tag)
    wait_until(lambda: not exists(channel.connection, queue))


def test_purge_tells_how_many_ready_messages_it_removed(channel):
    queue = declare(channel)
    send(channel, queue, b"unacked", b"b", b"c")
    found, _, _ = channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(found.delivery_tag, requeue=True)
    assert drain(channel, queue) == [b"unacked"]


def test_delete_tells_how_many_messages_went_with_the_queue(channel):
    queue = declare(channel)
    send(channel, queue, b"a", b"b")
    assert channel.queue_delete(queue).method.message_count == 2
    assert channel.queue_delete(queue).method.message_count == 0


def test_prefetch_limits_each_consumer_for_itself(channel):
    queue = declare(channel)
    send(channel, queue, *[b"%d" % number for number in range(10)])
    channel.basic_qos(prefetch_count=2)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    wait_until(lambda: len(first.bodies) + len(second.bodies) == 4, channel.connection)
    assert ready_count(channel, queue) == 6
    assert (len(first.bodies), len(second.bodies)) == (2, 2)
    channel.basic_ack(first.delivery_tags[0])
    first.wait_for(3)
    assert len(second.bodies) == 2


@pytest.mark.differs_at_fronts(
    "what exceeds a prefetch of the channel waits there, and is not ready"
)
def test_global_prefetch_is_shared_by_the_consumers_of_a_channel(channel):
    queue = declare(channel)
    send(channel, queue, *[b"%d" % number for number in range(10)])
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    wait_until(lambda: len(first.bodies) + len(second.bodies) == 3, channel.connection)
    assert ready_count(channel, queue) == 7
    assert len(first.bodies) + len(second.bodies) == 3


def test_prefetch_of_zero_is_no_limit(channel):
    queue = declare(channel)
    send(channel, queue, *[b"x"] * 300)
    channel.basic_qos(prefetch_count=0)
    Inbox(channel, queue).wait_for(300)


def test_a_new_prefetch_counts_for_consumers_that_start_later(channel):
    queue = declare(channel)
    channel.basic_qos(prefetch_count=1)
    early = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=3)
    late = Inbox(channel, queue)
    send(channel, queue, *[b"x"] * 10)
    wait_until(lambda: len(early.bodies) + len(late.bodies) == 4, channel.connection)
    assert (len(early.bodies), len(late.bodies)) == (1, 3)


def test_a_cancelled_consumer_receives_nothing_more(channel):
    queue = declare(channel)
    inbox = Inbox(channel, queue, auto_ack=True)
    send(channel, queue, b"before")
    inbox.wait_for(1)
    channel.basic_cancel(inbox.tag)
    send(channel, queue, b"after")
    assert drain(channel, queue) == [b"after"]
    assert inbox.bodies == [b"before"]


def test_a_consumer_is_told_when_its_queue_is_deleted(clients):
    channel, other = clients.channel(), clients.channel()
    queue = declare(channel, auto_delete=True)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(channel, queue)
    other.queue_delete(queue)
    wait_until(lambda: cancelled, channel.connection)
    assert cancelled == [inbox.tag]
    round_trip(channel)


def test_an_exclusive_consumer_is_alone(channel):
    queue = declare(channel)
    first = Inbox(channel, queue, exclusive=True)
    other = channel.connection.channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        other.basic_consume(queue, print)
    assert closed.value.reply_code == 403
    channel.basic_cancel(first.tag)
    Inbox(channel, queue)


def test_a_consumer_with_a_higher_priority_is_served_first(channel):
    queue = declare(channel)
    low = Inbox(channel, queue, auto_ack=True)
    high = Inbox(channel, queue, auto_ack=True, arguments={"x-priority": 10})
    send(channel, queue, b"a", b"b", b"c")
    high.wait_for(3)
    assert low.bodies == []


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_048_576])
def test_a_body_of_any_size_comes_back_unchanged(channel, size):
    queue = declare(channel)
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    channel.basic_publish("", queue, body)
    assert drain(channel, queue) == [body]


def test_a_reply_comes_straight_back_through_the_direct_reply_queue(clients):
    client, server = clients.channel(), clients.channel()
    requests = declare(server, auto_delete=True)
    inbox = Inbox(server, requests, auto_ack=True)
    replies = Inbox(client, "amq.rabbitmq.reply-to", auto_ack=True)
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    client.basic_publish("", requests, b"question", properties)
    _, asked, _ = inbox.wait_for(1).deliveries[0]
    assert asked.reply_to.startswith("amq.rabbitmq.reply-to.")
    assert server.queue_declare(asked.reply_to, passive=True).method.consumer_count == 1
    answer = pika.BasicProperties(correlation_id=asked.correlation_id)
    server.basic_publish("", asked.reply_to, b"answer", answer)
    _, properties, body = replies.wait_for(1).deliveries[0]
    assert (properties.correlation_id, body) == ("7", b"answer")


def test_a_reply_and_its_carbon_copies_each_come_once(clients):
    client, server = clients.channel(), clients.channel()
    requests, copied = declare(server, auto_delete=True), declare(server, auto_delete=True)
    asked = Inbox(server, requests, auto_ack=True)
    replies = Inbox(client, "amq.rabbitmq.reply-to", auto_ack=True)
    question = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    client.basic_publish("", requests, b"question", question)
    address = asked.wait_for(1).deliveries[0][1].reply_to
    for key, headers, body in (
        (address, {"CC": [copied, address]}, b"seen"),
        (address, {"BCC": [copied], "n": 1}, b"unseen"),
        (copied, {"BCC": [address]}, b"turned round"),
    ):
        server.basic_publish("", key, body, pika.BasicProperties(headers=headers))
    replies.wait_for(3)
    assert replies.bodies == [b"seen", b"unseen", b"turned round"]
    given = [properties.headers or {} for _, properties, _ in replies.deliveries]
    assert given == [{"CC": [copied, address]}, {"n": 1}, {}]
    assert drain(server, copied) == [b"seen", b"unseen", b"turned round"]
