"""Trace contexts go through a broker as they are, and its spans go to a receiver of OpenTelemetry's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from scenarios.watching.span_receiver import SpanReceiver, span_receiver
from support.broker_process import BrokerProcess
from support.pika_client import Clients

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


def publish(channel: BlockingChannel, queue: str, headers: dict[str, Any]) -> None:
    channel.basic_publish("", queue, b"body", BasicProperties(headers=headers), mandatory=True)


def taken(channel: BlockingChannel, queue: str, count: int) -> list[dict[str, Any]]:
    """The headers of messages that a consumer gets."""
    found: list[dict[str, Any]] = []
    for method, properties, _ in channel.consume(queue):
        found.append(properties.headers)
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def said(span: Span) -> dict[str, Any]:
    """The attributes of a span that are text or numbers."""
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_trace_context_comes_out_as_it_went_in(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.confirm_delivery()
    contexts = [
        {"traceparent": SAMPLED, "tracestate": "vendor=t61rcWkgMzE,other=1", "baggage": "a=1"},
        {"traceparent": NOT_SAMPLED},
        {"traceparent": "no such thing"},
    ]
    for each in contexts:
        publish(channel, name, each)
    assert taken(channel, name, 3) == contexts


@pytest.mark.differs_from_rabbitmq("spans of its own")
def test_spans_of_sampled_messages_reach_a_receiver(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    with span_receiver() as receiver:
        broker = fresh_broker(ROUTELOG_OTEL_ENDPOINT=receiver.url)
        _work(broker)
        assert broker.terminate() == 0  # what is left is sent
        _check(receiver)


def _work(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.connect().channel()
    channel.queue_declare("traced", durable=True)
    channel.confirm_delivery()
    contexts = [{"traceparent": each} for each in (SAMPLED, NOT_SAMPLED, "00-0-0-01")]
    for each in [*contexts, {}]:
        publish(channel, "traced", each)
    assert [each or {} for each in taken(channel, "traced", 4)] == [*contexts, {}]
    in_transaction = clients.connect().channel()
    in_transaction.tx_select()
    publish(in_transaction, "traced", contexts[0])
    in_transaction.tx_commit()
    assert channel.basic_get("traced", auto_ack=True)[1].headers == contexts[0]
    clients.close()


def _check(receiver: SpanReceiver) -> None:
    assert receiver.services == {"routelog"}
    names = sorted(span.name for span in receiver.spans)
    assert names == ["deliver traced"] * 2 + ["publish (default)"] * 2
    for span in receiver.spans:
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        about = said(span)
        assert about["messaging.rabbitmq.destination.routing_key"] == "traced"
        assert (about["routelog.vhost"], about["messaging.message.body.size"]) == ("/", 4)
        if span.name.startswith("deliver"):
            assert about["messaging.destination.subscription.name"] == "traced"
            assert span.end_time_unix_nano >= span.start_time_unix_nano
