"""A producer's cycle of messages, encoded once, of which runs are sent as slices."""

import datetime
import functools
from collections.abc import Callable

from pamqp import commands, frame
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.frames import (
    BODY_CYCLE,
    CHANNEL,
    FRAME_BYTES_MAX,
    body_frames,
    body_of,
    content_frames,
    header_frame,
)
from routelog.benchmarks.traffic.topology import ROUTE_HEADER, Topology, route_value
from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

PUBLISH_RUN_BYTES = 131_072  # one send: large enough that the system call costs little per message
_CYCLE_BYTES = 64 * 1_048_576  # of all producers: large messages have shorter cycles
_CYCLE_BYTES_MAX = 1024 * 1_048_576  # every routing key stands in the cycle at least once


def cycle_length(keys: int, body_bytes: int, producers: int = 1) -> int:
    """Messages after which a producer begins again: a multiple of its routing keys."""
    wanted = min(BODY_CYCLE, _CYCLE_BYTES // (body_bytes * producers))
    return keys * max(1, -(-wanted // keys))


def properties_of(workload: Workload, binding: int) -> commands.Basic.Properties:
    """What a message meant for this binding carries beside its body."""
    headers: FieldTable = {f"header-{n:02d}": f"value-{n:02d}" for n in range(workload.headers)}
    if workload.exchange_type is ExchangeType.HEADERS:
        headers[ROUTE_HEADER] = route_value(binding)
    properties = commands.Basic.Properties(
        headers=headers or None, delivery_mode=2 if workload.durable else 1
    )
    if workload.with_properties:
        properties.content_type = "application/json"
        properties.content_encoding = "identity"
        properties.priority = 0
        properties.correlation_id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        properties.message_id = "00112233-4455-6677-8899-aabbccddeeff"
        properties.timestamp = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        properties.message_type = "benchmark"
        properties.app_id = "routelog perf"
    return properties


class PublishRun:
    """The messages of one producer.

    Args:
        encode: gives the frames of a message by its number in the cycle, all of one length.
        cycle: messages after which they begin again.
        producers: that share the memory.

    Raises:
        BadRequest: so many routing keys with such messages do not fit into memory.
    """

    def __init__(self, encode: Callable[[int], bytes], cycle: int, producers: int = 1) -> None:
        self.publish_bytes = len(encode(0))
        self.cycle = cycle
        if cycle * self.publish_bytes * producers > _CYCLE_BYTES_MAX:
            raise BadRequest(f"{cycle} different messages of {self.publish_bytes} bytes: too many")
        run_bytes = min(PUBLISH_RUN_BYTES, _CYCLE_BYTES // producers)
        self.messages_max = max(1, run_bytes // self.publish_bytes)
        frames = b"".join(map(encode, range(cycle)))
        whole, part = divmod(self.messages_max, cycle)
        self._frames = memoryview(frames * (whole + 1) + frames[: part * self.publish_bytes])

    def encoded(self, first_index: int, count: int) -> memoryview:
        """The frames of `count` messages from number `first_index` on, without a copy.

        Args:
            count: at most `messages_max`.
        """
        start = first_index % self.cycle * self.publish_bytes
        return self._frames[start : start + count * self.publish_bytes]

    def checksum(self, messages: int) -> int:
        """Sum of the lowest bytes of the numbers of so many messages."""
        return sum_of_numbers(self.cycle, messages)


def publishes_of(topology: Topology, producer: int, frame_max: int = FRAME_BYTES_MAX) -> PublishRun:
    """The messages of a workload's producer.

    Args:
        frame_max: bytes of a frame, as the broker wants it.

    Raises:
        BadRequest: so many routing keys with such messages do not fit into memory.
    """
    workload = topology.workload
    routes = topology.routes_of(producer)

    @functools.lru_cache(maxsize=1)
    def content_header(binding: int) -> bytes:
        return header_frame(properties_of(workload, binding), workload.body_bytes)

    def encode(index: int) -> bytes:
        route = routes[index % len(routes)]
        publish = commands.Basic.Publish(exchange=topology.exchange, routing_key=route.key)
        decides = workload.exchange_type is ExchangeType.HEADERS
        return (
            frame.marshal(publish, CHANNEL)
            + content_header(route.binding if decides else 0)
            + body_frames(body_of(index, workload.body_bytes, producer), frame_max)
        )

    producers = workload.producers
    cycle = cycle_length(len(routes), workload.body_bytes, producers)
    return PublishRun(encode, cycle, producers)


def publishes_to(queue: str, body_bytes: int, *, persistent: bool) -> PublishRun:
    """Messages to one queue, through the default exchange."""
    publish = commands.Basic.Publish(exchange="", routing_key=queue)
    method = frame.marshal(publish, CHANNEL)
    return PublishRun(
        lambda index: method + content_frames(index, body_bytes, persistent),
        cycle_length(1, body_bytes),
    )


def sum_of_numbers(cycle: int, messages: int) -> int:
    """Sum of the lowest bytes of the numbers of a producer's first messages."""
    return _sum_to(cycle) * (messages // cycle) + _sum_to(messages % cycle)


def _sum_to(count: int) -> int:
    whole, part = divmod(count, 256)
    return whole * (255 * 256 // 2) + part * (part - 1) // 2
