"""Reply codes and texts as pika users see them, and what stays usable afterwards."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from support.pika_client import Inbox, declare, drain, send

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. "
    "It could be originally declared on another connection or the exclusive property value does "
    "not match that of the original declaration."
)


def redeclare_queue(**changed):
    """Declare a queue and then again with a difference."""

    def act(channel, name):
        channel.queue_declare(name, auto_delete=True)
        channel.queue_declare(name, **{"auto_delete": True, **changed})

    return act


def redeclare_exchange(**changed):
    """Declare an exchange and then again with a difference."""

    def act(channel, name):
        channel.exchange_declare(name, "direct", auto_delete=True)
        channel.exchange_declare(name, **{"auto_delete": True, **changed})

    return act


def use_a_locked_queue(channel, name):
    channel.queue_declare(name, exclusive=True)
    stranger = pika.BlockingConnection(channel.connection._impl.params).channel()
    try:
        stranger.queue_declare(name, passive=True)
    finally:
        stranger.connection.close()


def delete_a_queue_in_use(channel, name):
    channel.queue_declare(name, auto_delete=True)
    channel.basic_consume(name, print)
    channel.queue_delete(name, if_unused=True)


def delete_a_queue_with_messages(channel, name):
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"x")
    channel.queue_delete(name, if_empty=True)


def delete_an_exchange_in_use(channel, name):
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.queue_bind(declare(channel), name, "k")
    channel.exchange_delete(name, if_unused=True)


def consume_exclusively_used(channel, name):
    channel.queue_declare(name, exclusive=True)
    channel.basic_consume(name, print, exclusive=True)
    channel.basic_consume(name, print)


def publish_to(exchange):
    """Publish to an exchange and wait for the answer."""

    def act(channel, name):
        channel.basic_publish(exchange or name, "", b"x")
        channel.queue_declare("", exclusive=True)

    return act


def publish_to_internal(channel, name):
    channel.exchange_declare(name, "direct", internal=True, auto_delete=True)
    publish_to("")(channel, name)


def ack_unknown(channel, name):
    channel.basic_ack(7)
    channel.queue_declare(name, exclusive=True)


def redeclare_limited_queue(channel, name):
    declare(channel, name, arguments={"x-max-length": 5})
    declare(channel, name, arguments={"x-max-length": 6})


CHANNEL_ERRORS = [
    (lambda ch, name: ch.queue_declare(name, passive=True), 404, "no queue '{name}' in vhost '/'"),
    (lambda ch, name: ch.basic_get(name), 404, "no queue '{name}' in vhost '/'"),
    (lambda ch, name: ch.basic_consume(name, print), 404, "no queue '{name}' in vhost '/'"),
    (lambda ch, name: ch.queue_purge(name), 404, "no queue '{name}' in vhost '/'"),
    (lambda ch, name: ch.queue_bind(name, "amq.fanout"), 404, "no queue '{name}' in vhost '/'"),
    (
        lambda ch, name: ch.exchange_declare(name, passive=True),
        404,
        "no exchange '{name}' in vhost '/'",
    ),
    (publish_to(""), 404, "no exchange '{name}' in vhost '/'"),
    (
        lambda ch, name: ch.exchange_declare(f"amq.{name}"),
        403,
        "exchange name 'amq.{name}' contains reserved prefix 'amq.*'",
    ),
    (
        lambda ch, name: ch.queue_declare(f"amq.{name}"),
        403,
        "queue name 'amq.{name}' contains reserved prefix 'amq.*'",
    ),
    (
        lambda ch, name: ch.exchange_delete("amq.direct"),
        403,
        "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    ),
    (
        lambda ch, name: ch.queue_bind(declare(ch), "", "k"),
        403,
        "operation not permitted on the default exchange",
    ),
    (publish_to_internal, 403, "cannot publish to internal exchange '{name}' in vhost '/'"),
    (consume_exclusively_used, 403, "queue '{name}' in vhost '/' in exclusive use"),
    (use_a_locked_queue, 405, LOCKED.removeprefix("RESOURCE_LOCKED - ")),
    (
        redeclare_queue(durable=True),
        406,
        "inequivalent arg 'durable' for queue '{name}' in vhost '/': "
        "received 'true' but current is 'false'",
    ),
    (
        redeclare_queue(auto_delete=False),
        406,
        "inequivalent arg 'auto_delete' for queue '{name}' in vhost '/': "
        "received 'false' but current is 'true'",
    ),
    (
        redeclare_queue(arguments={"x-max-length": 10}),
        406,
        "inequivalent arg 'x-max-length' for queue '{name}' in vhost '/': "
        "received the value '10' of type 'signedint' but current is none",
    ),
    (
        redeclare_limited_queue,
        406,
        "inequivalent arg 'x-max-length' for queue '{name}' in vhost '/': "
        "received '6' but current is '5'",
    ),
    (
        lambda ch, name: ch.exchange_declare("", passive=True),
        403,
        "operation not permitted on the default exchange",
    ),
    (
        lambda ch, name: ch.queue_declare("amq.rabbitmq.reply-to.nobody", passive=True),
        404,
        "no queue 'amq.rabbitmq.reply-to.nobody' in vhost '/'",
    ),
    (
        redeclare_exchange(exchange_type="fanout"),
        406,
        "inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'fanout' but current is 'direct'",
    ),
    (
        redeclare_exchange(durable=True),
        406,
        "inequivalent arg 'durable' for exchange '{name}' in vhost '/': "
        "received 'true' but current is 'false'",
    ),
    (delete_a_queue_in_use, 406, "queue '{name}' in vhost '/' in use"),
    (delete_a_queue_with_messages, 406, "queue '{name}' in vhost '/' not empty"),
    (delete_an_exchange_in_use, 406, "exchange '{name}' in vhost '/' in use"),
    (ack_unknown, 406, "unknown delivery tag 7"),
    (lambda ch, name: ch.tx_commit(), 406, "channel is not transactional"),
]

PREFIXES = {
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
}


@pytest.mark.parametrize(("act", "code", "reason"), CHANNEL_ERRORS)
def test_a_channel_error_has_rabbitmq_s_code_and_text_and_spares_the_connection(
    connection, name, act, code, reason
):
    with pytest.raises(ChannelClosedByBroker) as closed:
        act(connection.channel(), name)
    assert closed.value.reply_code == code
    assert closed.value.reply_text == f"{PREFIXES[code]} - {reason}".replace("{name}", name)
    channel = connection.channel()
    queue = declare(channel)
    send(channel, queue, b"still here")
    assert drain(channel, queue) == [b"still here"]


def test_a_name_that_the_broker_gave_is_no_name_to_declare(connection):
    channel = connection.channel()
    given = declare(channel)
    with pytest.raises(ChannelClosedByBroker) as closed:
        declare(channel, given)
    reason = f"queue name '{given}' contains reserved prefix 'amq.*'"
    assert closed.value.reply_text == f"ACCESS_REFUSED - {reason}"


def test_a_queue_is_classic_whether_its_declaration_says_so_or_not(connection, name):
    channel = connection.channel()
    for arguments in ({}, {"x-queue-type": "classic"}, {}):
        assert declare(channel, name, arguments=arguments) == name


def test_a_text_beyond_255_bytes_is_cut_and_says_so(connection):
    with pytest.raises(ChannelClosedByBroker) as closed:
        connection.channel().queue_declare("n" * 255, passive=True)
    assert closed.value.reply_text.startswith("NOT_FOUND - no queue 'nnn")
    assert closed.value.reply_text.endswith("...")
    assert len(closed.value.reply_text) <= 255


def test_other_channels_go_on_when_one_is_closed_for_an_error(connection):
    working, failing = connection.channel(), connection.channel()
    queue = declare(working)
    inbox = Inbox(working, queue, auto_ack=True)
    with pytest.raises(ChannelClosedByBroker):
        failing.queue_declare("nowhere", passive=True)
    send(working, queue, b"x")
    inbox.wait_for(1)
    assert connection.channel(failing.channel_number).is_open


CONNECTION_ERRORS = [
    (lambda ch: ch.basic_qos(prefetch_size=1), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
    (lambda ch: ch.basic_recover(requeue=False), 540, "NOT_IMPLEMENTED - requeue=false"),
]


@pytest.mark.parametrize(("act", "code", "text"), CONNECTION_ERRORS)
def test_a_connection_error_has_rabbitmq_s_code_and_text(connection, act, code, text):
    with pytest.raises(ConnectionClosedByBroker) as closed:
        act(connection.channel())
    assert (closed.value.reply_code, closed.value.reply_text) == (code, text)


def test_a_wrong_password_is_refused(clients):
    with pytest.raises(ProbableAuthenticationError, match=r"403.*ACCESS_REFUSED"):
        clients.connect(credentials=pika.PlainCredentials("guest", "wrong"))


def test_an_unknown_virtual_host_is_refused(clients):
    with pytest.raises(ProbableAccessDeniedError, match=r"530.*vhost nowhere not found"):
        clients.connect(virtual_host="nowhere")
