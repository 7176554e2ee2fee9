"""The consumer's view of its deliveries: counted by size, checked by comparison."""

import functools
import struct
from dataclasses import dataclass

from pamqp import base, body, commands, exceptions, frame, header

from routelog.benchmarks.traffic.frames import (
    BODY_HEAD,
    FRAME_HEAD_BYTES,
    FRAME_OVERHEAD_BYTES,
    body_of,
)
from routelog.benchmarks.traffic.publish_run import cycle_length, properties_of, sum_of_numbers
from routelog.benchmarks.traffic.topology import ROUTE_HEADER, Topology, route_value
from routelog.benchmarks.traffic.unexpected import unexpected
from routelog.benchmarks.traffic.workload import ExchangeType

OFFSET_HEADER = "x-stream-offset"
_TAG = struct.Struct(">Q")
_PAYLOAD_SIZE = struct.Struct(">I")
_STRING_SIZE_BYTES = 4
_CONSUMER_TAG_OFFSET = FRAME_HEAD_BYTES + 4 + 1
_DELIVER = slice(FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + 4)
_DELIVER_METHOD = b"\x00\x3c\x00\x3c"


@dataclass(frozen=True)
class _Layout:
    """Where the first delivery ends, and where those of its fields stand that differ between deliveries."""

    size: int
    consumer_tag: slice
    tag_offset: int
    key: slice
    route: slice | None  # None where no header decides
    offset: slice | None  # None where no log is read
    body_offset: int


class DeliveryStream:
    """Deliveries of one size on one channel; only some of their fields differ.

    The first one is parsed. From then on the last whole delivery of every read is compared with it byte by
    byte, with the delivery tag that its place in the stream demands, and with the fields that belong to its
    number: a stray frame or a redelivered message shows at once. Where one producer feeds this stream
    alone, its number is what its place demands, too, so a lost or doubled message shows with the same read;
    elsewhere `checksum` tells at the end.
    """

    def __init__(self, topology: Topology, consumer: int) -> None:
        self._topology = topology
        self._body_bytes = topology.workload.body_bytes
        self._sole_producer = topology.sole_producer_of(consumer)
        self._tags_of_group: dict[int, set[bytes]] = {}
        for each in topology.subscriptions_of(consumer):
            self._tags_of_group.setdefault(each.group, set()).add(each.consumer_tag.encode())
        self._routes_of = functools.cache(topology.routes_of)
        # Of a sole producer with a single key, nothing but delivery tag and number differs; 0 otherwise.
        sole = self._sole_producer
        has_one_key = sole is not None and len(self._routes_of(sole)) == 1
        self._only_cycle = self._cycle_of(sole) if sole is not None and has_one_key else 0
        self._layout: _Layout | None = None
        self._expected = bytearray()
        self._sum = 0
        self.received = 0

    @property
    def checksum(self) -> int:
        """Sum of the lowest bytes of the numbers of all messages received."""
        if self._sole_producer is None:
            return self._sum
        return sum_of_numbers(self._cycle_of(self._sole_producer), self.received)

    def feed(self, data: memoryview) -> int:
        """Count the whole deliveries at the beginning of `data`.

        Returns:
            The bytes used; the rest belongs before the next read.

        Raises:
            UnexpectedFrame: the last whole delivery is not one that belongs there.
            BrokerRefused: the broker closed the channel or the connection.
        """
        layout = self._layout or self._parse_first(data)
        if layout is None:
            return 0
        count = len(data) // layout.size
        end = count * layout.size
        if count:
            self.received += count
            if self._sole_producer is None:
                numbers = data[layout.body_offset + BODY_HEAD.size - 1 : end : layout.size]
                self._sum += sum(bytes(numbers))
            self._check_last(layout, data[end - layout.size : end])
        if end < len(data):
            self._check_begin(data[end:])
        return end

    def _check_begin(self, rest: memoryview) -> None:
        """What is not whole must begin like a delivery; a closing frame would never grow into one."""
        if len(rest) > _DELIVER.stop and rest[_DELIVER] != _DELIVER_METHOD:
            raise unexpected(f"deliveries, after number {self.received}", bytes(rest))

    def _check_last(self, layout: _Layout, last: memoryview) -> None:
        expected, received = self._expected, self.received
        _TAG.pack_into(expected, layout.tag_offset, received)
        if layout.offset is not None:
            is_sole = self._sole_producer is not None
            expected[layout.offset] = _TAG.pack(received - 1) if is_sole else last[layout.offset]
        if self._only_cycle:
            index = (received - 1) % self._only_cycle
            BODY_HEAD.pack_into(expected, layout.body_offset, self._sole_producer, index)
        else:
            self._expect_what_varies(layout, last)
        if expected != last:
            raise unexpected(f"deliveries, at number {received}", bytes(last))

    def _expect_what_varies(self, layout: _Layout, last: memoryview) -> None:
        expected = self._expected
        producer, index = BODY_HEAD.unpack_from(last, layout.body_offset)
        if self._sole_producer is not None:
            producer = self._sole_producer
            index = (self.received - 1) % self._cycle_of(producer)
        if producer >= self._topology.workload.producers:
            return
        routes = self._routes_of(producer)
        route = routes[index % len(routes)]
        tag = bytes(last[layout.consumer_tag])
        if tag in self._tags_of_group.get(route.group, ()):
            expected[layout.consumer_tag] = tag
        expected[layout.key] = route.key.encode()
        if layout.route is not None:
            expected[layout.route] = route_value(route.binding).encode()
        BODY_HEAD.pack_into(expected, layout.body_offset, producer, index)

    def _cycle_of(self, producer: int) -> int:
        producers = self._topology.workload.producers
        return cycle_length(len(self._routes_of(producer)), self._body_bytes, producers)

    # -- the first delivery

    def _parse_first(self, data: memoryview) -> _Layout | None:
        """Parse and check the first delivery; None while it is not whole."""
        self._check_begin(data)
        if len(data) < self._body_bytes:
            return None
        frames, size = _whole_frames(data, self._body_bytes)
        if not size:
            return None
        match frames:
            case [
                (_, commands.Basic.Deliver(delivery_tag=1, redelivered=False) as deliver),
                (header_offset, header.ContentHeader() as content_header),
                (body_offset, body.ContentBody()),
                *_,
            ]:
                content = b"".join(
                    part.value for _, part in frames[2:] if isinstance(part, body.ContentBody)
                )
                self._check_content(deliver, content_header, content, data)
            case _:
                raise unexpected("deliveries, at the first", bytes(data))
        self._expected[:] = data[:size]
        consumer_tag_end = _CONSUMER_TAG_OFFSET + len(deliver.consumer_tag or "")
        key_offset = consumer_tag_end + _TAG.size + 1 + 1 + len(deliver.exchange or "") + 1
        self._layout = _Layout(
            size=size,
            consumer_tag=slice(_CONSUMER_TAG_OFFSET, consumer_tag_end),
            tag_offset=consumer_tag_end,
            key=slice(key_offset, key_offset + len(deliver.routing_key or "")),
            route=self._route(bytes(data[:body_offset]), header_offset),
            offset=self._offset(bytes(data[:body_offset]), header_offset),
            body_offset=body_offset + FRAME_HEAD_BYTES,
        )
        return self._layout

    def _check_content(
        self,
        deliver: commands.Basic.Deliver,
        content_header: header.ContentHeader,
        content: bytes,
        data: memoryview,
    ) -> None:
        """The properties, the size and the whole body; `_check_last` does the rest."""
        topology = self._topology
        producer, index = BODY_HEAD.unpack_from(content)
        if self._sole_producer is not None:
            producer, index = self._sole_producer, 0
        if producer < topology.workload.producers and index < self._cycle_of(producer):
            routes = self._routes_of(producer)
            route = routes[index % len(routes)]
            as_sent = (
                deliver.exchange == topology.exchange
                and deliver.routing_key == route.key
                and _published(content_header.properties)
                == _published(properties_of(topology.workload, route.binding))
                and content == body_of(index, self._body_bytes, producer)
            )
            if as_sent:
                return
        raise unexpected("deliveries, at the first", bytes(data))

    def _offset(self, frames: bytes, header_offset: int) -> slice | None:
        if not self._topology.workload.reads_log:
            return None
        named = bytes([len(OFFSET_HEADER)]) + OFFSET_HEADER.encode() + b"l"
        start = frames.index(named, header_offset) + len(named)
        return slice(start, start + _TAG.size)

    def _route(self, frames: bytes, header_offset: int) -> slice | None:
        if self._topology.workload.exchange_type is not ExchangeType.HEADERS:
            return None
        named = bytes([len(ROUTE_HEADER)]) + ROUTE_HEADER.encode() + b"S"
        start = frames.index(named, header_offset) + len(named) + _STRING_SIZE_BYTES
        return slice(start, start + len(route_value(0)))


def _published(properties: commands.Basic.Properties) -> dict[str, object]:
    """Properties without what a reader of a log is told."""
    headers = {
        name: value for name, value in (properties.headers or {}).items() if name != OFFSET_HEADER
    }
    return {**dict(properties), "headers": headers}


def _whole_frames(
    data: memoryview, body_bytes: int
) -> tuple[list[tuple[int, frame.FrameTypes]], int]:
    """Frames up to the last body or a second method, with their offsets; their size, 0 while not whole."""
    frames: list[tuple[int, frame.FrameTypes]] = []
    at, left = 0, body_bytes
    while len(data) - at >= FRAME_HEAD_BYTES:
        (payload,) = _PAYLOAD_SIZE.unpack_from(data, at + 3)
        end = at + payload + FRAME_OVERHEAD_BYTES
        if len(data) < end:
            break
        try:
            _, _, value = frame.unmarshal(bytes(data[at:end]))
        except exceptions.UnmarshalingException:
            raise unexpected("deliveries, at the first", bytes(data[at:end])) from None
        frames.append((at, value))
        at = end
        if isinstance(value, body.ContentBody):
            left -= len(value.value)
        if left <= 0 or (len(frames) > 1 and isinstance(value, base.Frame)):
            return frames, at
    return frames, 0
