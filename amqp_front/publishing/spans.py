"""Spans for OpenTelemetry, of messages that carry a sampled trace context: their publish and their deliveries.

The headers of messages stay as they are: a span hangs below the publisher's, and the consumer's beside it.

Source: W3C Trace Context, 3.2 "traceparent header"; OpenTelemetry, "Semantic conventions for messaging"
"""

import re
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from routelog.amqp_front.publishing.firehose import TracedChannel
from routelog.amqp_front.wire.command import PublishRun
from routelog.log_backend import Clock
from routelog.vhosts import Delivery

# A header of type long string, as clients send it: before its four bytes of length.
_HEADER = b"\x0btraceparentS"
_CONTEXT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CONTEXT_BYTES = 55
_SAMPLED = 1


class Spans:
    """Spans of a node, sent in batches by a thread; what it cannot send soon enough is dropped.

    Args:
        endpoint: where OTLP is taken over HTTP; empty: where OTEL_EXPORTER_OTLP_ENDPOINT and its like say.
        node: the node's name.
    """

    def __init__(self, endpoint: str, node: str, version: str, clock: Clock) -> None:
        resource = Resource.create(
            {"service.name": "routelog", "service.version": version, "service.instance.id": node}
        )
        self._clock = clock
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
        self._tracer = self._provider.get_tracer("routelog", version)

    def of_vhost(self, name: str) -> "VhostSpans":
        """What is told of the messages of a vhost."""
        return VhostSpans(self, name)

    def note(
        self,
        name: str,
        context: Any,
        kind: SpanKind,
        about: dict[str, Any],
        since: int | None = None,
    ) -> None:
        """Something was done with a message.

        Args:
            since: microseconds since 1970; None: it took no time.
        """
        now = self._clock.now()
        first = now if since is None else min(since, now)
        self._tracer.start_span(name, context, kind, about, start_time=first * 1_000).end(
            now * 1_000
        )

    def close(self) -> None:
        """Send what is left. Blocks, for seconds when nobody takes it."""
        self._provider.shutdown()


class VhostSpans:
    """Spans of the messages of one vhost; see `Firehose`."""

    def __init__(self, spans: Spans, vhost: str) -> None:
        self._spans = spans
        self._vhost = vhost

    def published(
        self, channel: TracedChannel, run: PublishRun, index: int, queues: Sequence[str]
    ) -> None:
        """A message was published."""
        context = sampled_context(run.properties(index))
        if context is not None:
            exchange = run.exchange.decode()
            key = run.routing_key or run.keys()[index]
            about = self._about(channel, exchange, key, len(run.body(index)))
            about["routelog.queues"] = list(queues)
            name = f"publish {exchange or '(default)'}"
            self._spans.note(name, context, SpanKind.PRODUCER, about)

    def delivered(self, channel: TracedChannel, queue: str, delivery: Delivery) -> None:
        """Messages are on their way to a consumer: a span since each one came."""
        records = delivery.records
        for index in range(delivery.index, delivery.index + delivery.count):
            context = sampled_context(records.properties(index))
            if context is not None:
                exchange = records.exchange.decode(errors="replace")
                size = len(records.body(index))
                about = self._about(channel, exchange, records.routing_key(index), size)
                about["messaging.destination.subscription.name"] = queue
                about["routelog.redelivered"] = delivery.redelivered
                name = f"deliver {queue}"
                self._spans.note(name, context, SpanKind.CONSUMER, about, records.time)

    def _about(
        self, channel: TracedChannel, exchange: str, key: bytes, size: int
    ) -> dict[str, Any]:
        return {
            "messaging.system": "rabbitmq",
            "messaging.destination.name": exchange,
            "messaging.rabbitmq.destination.routing_key": key.decode(errors="replace"),
            "messaging.message.body.size": size,
            "routelog.vhost": self._vhost,
            "routelog.connection": channel.connection_name,
            "routelog.channel": channel.number,
        }


def sampled_context(properties: bytes) -> Any:
    """The trace context of a message, as the parent of a span; None: it has none, or is not sampled.

    Args:
        properties: its property list.
    """
    at = properties.find(_HEADER)
    if at < 0:
        return None
    first = at + len(_HEADER) + 4
    found = _CONTEXT.fullmatch(properties, first, first + _CONTEXT_BYTES)
    if found is None or not int(found[3], 16) & _SAMPLED:
        return None
    parent = SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(_SAMPLED))
    return set_span_in_context(NonRecordingSpan(parent)) if parent.is_valid else None
