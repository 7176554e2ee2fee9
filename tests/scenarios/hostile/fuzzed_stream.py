"""What a client could say that no client says: frames that are right one by one, in any order, then damaged.

Everything follows from the seed, so a stream that finds something can be had again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pamqp import commands, header
from pamqp import frame as pamqp_frame
from scenarios.clients.raw_client import content_body, frame, long, method, plain, short

QUEUES = tuple(f"fuzzed.{number}" for number in range(6))
EXCHANGES = {
    "fuzzed.direct": "direct",
    "fuzzed.fanout": "fanout",
    "fuzzed.topic": "topic",
    "fuzzed.headers": "headers",
}
STREAM = "fuzzed.stream"
NAMES = (
    *QUEUES,
    STREAM,
    *EXCHANGES,
    "",
    "amq.topic",
    "amq.rabbitmq.reply-to",
    "käse",
    "#.*.#",
    "x" * 255,
)
CHANNELS = (1, 1, 1, 1, 2, 2, 3)
STRANGE_CHANNELS = (0, 4, 2_047, 2_048, 65_535)
NUMBERS = (0, 0, 1, 1, 2, 3, 7, 255, 256, 65_535, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
OCTETS = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
TABLES = (
    b"",
    short("x-priority") + b"I\x00\x00\x00\x05",
    short("x-priority") + b"S" + long(b"high"),
    short("x-max-length") + b"l" + bytes(8),
    short("x-match") + b"S" + long(b"any") + short("k") + b"t\x01",
    short("alternate-exchange") + b"S" + long(b"fuzzed.fanout"),
    short("t") + b"F" + long(short("a") + b"A" + long(b"V" * 9)),
    short("D") + b"D\xff\x7f\xff\xff\xff" + short("T") + b"T" + b"\xff" * 8,
    short("f") + b"d\x7f\xf8\x00\x00\x00\x00\x00\x01" + short("") + b"x" + long(b"\xff\x00"),
    short("?") + b"?",
)
METHODS: list[Any] = list(commands.INDEX_MAPPING.values())
# What costs the connection: rarely said, or nothing would come after it.
SERVER_METHODS = frozenset(
    kind.name
    for kind in METHODS
    if kind.name.startswith("Connection.")
    or (kind.name.endswith("Ok") and kind.name not in ("Channel.FlowOk", "Basic.CancelOk"))
    or kind.name in ("Basic.Publish", "Basic.Deliver", "Basic.Return", "Channel.Open")
)
CONTENT_BYTES = (0, 1, 16, 100, 1_000, 4_087, 4_088, 4_089, 20_000)
PIECES_MAX = 4


class FuzzedStream:
    """The bytes of one connection, frame by frame.

    Args:
        seed: gives the same stream again.
        damage: how many mistakes are made in the bytes at the end.
    """

    def __init__(self, seed: int, damage: int) -> None:
        self.random = random.Random(seed)
        self._damage = damage

    def handshake(self) -> bytes:
        """All the client says until the connection is open, without waiting for answers."""
        properties: dict[str, Any] = {
            "capabilities": {"consumer_cancel_notify": self.random.random() < 0.5}
        }
        said = (
            commands.Connection.StartOk(properties, "PLAIN", plain()),
            commands.Connection.TuneOk(2_047, self.random.choice((4_096, 131_072)), 0),
            commands.Connection.Open("/"),
        )
        return b"AMQP\x00\x00\x09\x01" + b"".join(pamqp_frame.marshal(value, 0) for value in said)

    def undertakings(self, count: int) -> list[list[bytes]]:
        """About as many frames, those together that a client would not interrupt."""
        opened = [pamqp_frame.marshal(commands.Channel.Open(), number) for number in (1, 2, 3)]
        undertakings = [opened]
        while sum(map(len, undertakings)) < count:
            undertakings.append(self._some())
        return undertakings

    def damaged(self, count: int) -> bytes:
        """About as many frames, with mistakes in their bytes."""
        frames = [each for undertaking in self.undertakings(count) for each in undertaking]
        for _ in range(self._damage):
            self._harm(frames)
        return b"".join(frames)

    def chunks(self, stream: bytes) -> list[bytes]:
        """The stream as it goes into the socket: whole, in pieces, or octet by octet."""
        size = self.random.choice((len(stream), 1_448, 333, 19, 1 if len(stream) < 1_000 else 7))
        return [stream[at : at + size] for at in range(0, len(stream), max(1, size))]

    # -- frames

    def _some(self) -> list[bytes]:
        habits: tuple[tuple[Callable[[], list[bytes]], float], ...] = (
            (self._publishes, 30),
            (self._settlements, 14),
            (self._methods, 24),
            (self._known_method, 28),
            (self._stray_content, 0.1),
            (self._strange, 0.1),
        )
        kinds, weights = zip(*habits, strict=True)
        chosen: Callable[[], list[bytes]] = self.random.choices(kinds, weights)[0]
        return chosen()

    def _publishes(self) -> list[bytes]:
        # A run of them, with the same or with many keys, complete or in pieces.
        channel, exchange = self._channel(), self._exchange()
        frames: list[bytes] = []
        same = self.random.random() < 0.6
        key, properties = self._name(), self._properties()
        flags = 2 if self.random.random() < 0.005 else self.random.choice((0, 1))
        size = self.random.choice(CONTENT_BYTES)
        for _ in range(self.random.choice((1, 1, 2, 5, 30))):
            if not same:
                key, properties = self._name(), self._properties()
            arguments = b"\0\0" + short(exchange) + short(key) + bytes([flags])
            head = header.ContentHeader(body_size=size, properties=properties)
            frames += [method(60, 40, arguments, channel), pamqp_frame.marshal(head, channel)]
            frames += self._bodies(channel, size)
        return frames

    def _bodies(self, channel: int, size: int) -> list[bytes]:
        pieces = self.random.choice((1, 1, 1, PIECES_MAX)) if size < 4_000 else 1 + size // 4_088
        step = -(-size // pieces)
        return [
            content_body(b"." * min(step, size - at), channel)
            for at in range(0, size, max(1, step))
        ]

    def _settlements(self) -> list[bytes]:
        channel, first = self._channel(), self.random.randrange(0, 12)
        kind = self.random.choice((commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Reject))
        options = {} if kind is commands.Basic.Reject else {"multiple": self.random.random() < 0.4}
        if kind is not commands.Basic.Ack:
            options["requeue"] = self.random.random() < 0.8
        tags = range(first, first + self.random.choice((1, 1, 3)))
        return [pamqp_frame.marshal(kind(tag, **options), channel) for tag in tags]

    def _methods(self) -> list[bytes]:
        # A method that exists, with whatever arguments its layout allows.
        kind = self.random.choice(METHODS)
        if kind.name in SERVER_METHODS and self.random.random() < 0.98:
            return []
        arguments = b""
        was_bit = False
        for name in kind.attributes():
            is_bit = kind.amqp_type(name) == "bit"
            if is_bit and not was_bit:  # one octet for all that stand together
                arguments += bytes([self.random.choice((0, 0, 0, 1, 2, 4, 8, 16, 31))])
            elif not is_bit:
                arguments += self._argument(kind.amqp_type(name))
            was_bit = is_bit
        return [method(kind.index >> 16, kind.index & 0xFFFF, arguments, self._channel())]

    def _argument(self, kind: str) -> bytes:
        if kind in OCTETS:
            return (self.random.choice(NUMBERS) % 256 ** OCTETS[kind]).to_bytes(OCTETS[kind], "big")
        if kind == "shortstr":
            return short(self._name())
        return long(self.random.choice(TABLES) if kind == "table" else b"\0guest\0guest")

    def _known_method(self) -> list[bytes]:
        choose, likely = self.random.choice, self.random.random
        queue, exchange = choose(QUEUES), choose(list(EXCHANGES))
        makers: tuple[Callable[[], Any], ...] = (
            lambda: commands.Queue.Declare(
                queue=queue,
                durable=likely() < 0.6,
                exclusive=likely() < 0.1,
                auto_delete=likely() < 0.2,
                nowait=likely() < 0.2,
            ),
            lambda: commands.Queue.Declare(queue="", exclusive=likely() < 0.7),
            lambda: commands.Queue.Declare(
                queue=STREAM,
                durable=True,
                arguments={"x-queue-type": "stream", "x-max-age": choose(("1s", "1h"))},
            ),
            lambda: commands.Basic.Consume(
                queue=choose((STREAM, queue)),
                arguments={"x-stream-offset": choose(("first", "last", "next", "1h", 3, -1, 1.5))},
            ),
            lambda: commands.Basic.Consume(
                queue=choose((STREAM, queue)),
                no_ack=likely() < 0.4,
                arguments={
                    "x-group": choose(("g", "h", self._name(), "", 5)),
                    "x-group-expires": choose(("1s", "never", "x")),
                    "x-stream-offset": choose(("first", "next", 3, -1)),
                },
            ),
            lambda: commands.Queue.Delete(queue=queue, if_empty=likely() < 0.3),
            lambda: commands.Queue.Purge(queue=queue),
            lambda: commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=self._name()),
            lambda: commands.Queue.Unbind(queue=queue, exchange=exchange, routing_key="#"),
            lambda: commands.Exchange.Declare(
                exchange=exchange, exchange_type=EXCHANGES[exchange], auto_delete=likely() < 0.2
            ),
            lambda: commands.Exchange.Bind(destination=exchange, source=choose(list(EXCHANGES))),
            lambda: commands.Exchange.Delete(exchange=exchange, if_unused=likely() < 0.5),
            lambda: commands.Basic.Consume(queue=queue, no_ack=likely() < 0.4),
            lambda: commands.Basic.Consume(queue=queue, exclusive=likely() < 0.3),
            lambda: commands.Basic.Consume(queue=queue, consumer_tag=choose(("a", "b", "c"))),
            lambda: commands.Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True),
            lambda: commands.Basic.Cancel(consumer_tag=choose(("a", "b", "c"))),
            lambda: commands.Basic.Qos(
                prefetch_count=choose((0, 1, 2, 100)), global_=likely() < 0.3
            ),
            lambda: commands.Basic.Get(queue=queue, no_ack=likely() < 0.5),
            lambda: commands.Basic.Recover(requeue=True),
            lambda: commands.Channel.Flow(active=likely() < 0.8),
            lambda: commands.Channel.Close(200, "", 0, 0),
            lambda: choose((commands.Confirm, commands.Tx)).Select(),
            lambda: commands.Tx.Commit(),
            lambda: commands.Tx.Rollback(),
        )
        made = choose(makers)()
        channel = self._channel()
        frames = [pamqp_frame.marshal(made, channel)]
        if isinstance(made, commands.Channel.Close):
            frames.append(pamqp_frame.marshal(commands.Channel.Open(), channel))
        return frames

    def _stray_content(self) -> list[bytes]:
        channel = self._channel()
        head = header.ContentHeader(body_size=3, properties=self._properties())
        return [self.random.choice((pamqp_frame.marshal(head, channel), content_body(b"x" * 3)))]

    def _strange(self) -> list[bytes]:
        channel = self.random.choice(STRANGE_CHANNELS)
        payload = self.random.randbytes(self.random.randrange(40))
        return [
            self.random.choice(
                (
                    frame(self.random.choice((0, 1, 1, 1, 2, 3, 4, 8, 255)), channel, payload),
                    frame(8, 0, b""),
                    pamqp_frame.marshal(commands.Channel.Open(), channel),
                    method(60, self.random.randrange(10, 130, 10), payload, channel),
                )
            )
        ]

    # -- parts of frames

    def _channel(self) -> int:
        return self.random.choice(CHANNELS if self.random.random() < 0.999 else STRANGE_CHANNELS)

    def _name(self) -> str:
        return self.random.choice(QUEUES if self.random.random() < 0.7 else NAMES)

    def _exchange(self) -> str:
        if self.random.random() < 0.5:
            return ""
        return self.random.choice((*EXCHANGES, "amq.topic", "amq.headers", "amq.fanout"))

    def _properties(self) -> commands.Basic.Properties:
        likely = self.random.random
        headers: dict[str, Any] | None = None
        if likely() < 0.2:
            headers = self.random.choice(
                (
                    {"k": True},
                    {"CC": [self._name(), "x" * 300]},
                    {"BCC": list(QUEUES), "a": 1},
                    {"CC": "not a list"} if likely() < 0.1 else {"CC": []},
                    {"deep": {"deeper": {"deepest": [1, [2, [None]]]}}},
                )
            )
        return commands.Basic.Properties(
            headers=headers,
            delivery_mode=self.random.choice((None, 1, 2, 2)),
            expiration="60000" if likely() < 0.1 else None,
            reply_to="amq.rabbitmq.reply-to" if likely() < 0.02 else None,
            user_id="guest" if likely() < 0.1 else None,
            priority=self.random.choice((None, 0, 9)),
            correlation_id=self.random.choice((None, "c", "c" * 255)),
        )

    # -- damage

    def _harm(self, frames: list[bytes]) -> None:
        # Rather late than early: what follows the first mistake is hardly looked at.
        at = max(self.random.randrange(len(frames)), self.random.randrange(len(frames)))
        other = self.random.randrange(len(frames))
        raw = bytearray(frames[at])
        if not raw:
            return
        kind = self.random.randrange(8)
        if kind == 0:
            raw[self.random.randrange(len(raw))] ^= 1 << self.random.randrange(8)
        elif kind == 1:
            del raw[self.random.randrange(len(raw)) :]
        elif kind == 2:
            frames[at], frames[other] = frames[other], frames[at]
            return
        elif kind == 3:
            size = int.from_bytes(raw[3:7], "big") + self.random.choice((-1, 1, 256, 1 << 31))
            raw[3:7] = (size % (1 << 32)).to_bytes(4, "big")
        elif kind == 4:
            raw[1:3] = self.random.choice(STRANGE_CHANNELS).to_bytes(2, "big")
        elif kind == 5:  # a length inside, and the frame's own as if it were right
            place = self.random.randrange(min(7, len(raw) - 1), len(raw))
            raw[place] = self.random.choice((0, 1, 127, 128, 254, 255))
        elif kind == 6:
            raw[self.random.randrange(len(raw)) :] = self.random.randbytes(20)
        else:
            raw += frames[other][: self.random.randrange(len(frames[other]) + 1)]
        frames[at] = bytes(raw)
