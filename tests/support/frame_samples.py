"""Streams of frames as clients send them, built with pamqp, and the messages that they stand for.

A reader of runs and a reader of single frames are compared message by message: a `Flat` is one
publish with its whole content, one settlement, or one other frame, however it was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

from pamqp import base, body, commands, header, heartbeat
from pamqp import frame as pamqp_frame
from support.intake_samples import share
from support.source_tree import ROOT

from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.wire.command import (
    CARBON_COPY,
    BegunPublish,
    Command,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import AmqpError, HardError
from routelog.amqp_front.wire.methods import decode_method
from routelog.amqp_front.wire.properties import Properties

ACK, REQUEUE, DISCARD, REFUSE = range(4)

MESSAGE_BYTES_MAX = 1 << 20

Pieces = tuple[int, ...]


@dataclass(frozen=True)
class Flat:
    """One message, settlement or frame, whatever run or pieces it came in."""

    what: str
    channel: int
    parts: tuple[object, ...]


class Cutter(Protocol):
    """A frame cutter, compiled or not."""

    def receive_into(self, unread: bytes) -> memoryview: ...
    def received(self, size: int, payload_max: int) -> None: ...
    def next(self, assembling: bool) -> Command | None: ...
    def unread(self) -> bytes: ...


def source_module(name: str) -> ModuleType:
    """A hot module from its source, under a name of its own, beside the compiled one."""
    path = ROOT / "src" / f"{name.replace('.', '/')}.py"
    loader = SourceFileLoader(f"{name}_uncompiled", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


# -- writing


def raw_frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    """One frame, whatever it holds."""
    return b"".join(
        (
            bytes((kind,)),
            channel.to_bytes(2, "big"),
            len(payload).to_bytes(4, "big"),
            payload,
            bytes((end,)),
        )
    )


def method(channel: int, command: base.Frame) -> bytes:
    """A method frame as pamqp writes it."""
    return pamqp_frame.marshal(command, channel)


def publish_frames(
    channel: int,
    exchange: str,
    key: str,
    content: bytes,
    properties: commands.Basic.Properties | None = None,
    *,
    mandatory: bool = False,
    immediate: bool = False,
    pieces: Pieces | None = None,
) -> list[bytes]:
    """The frames of a publish; the body in one of them, or cut at the positions given."""
    publish = commands.Basic.Publish(0, exchange, key, mandatory, immediate)
    head = header.ContentHeader(
        body_size=len(content), properties=properties or commands.Basic.Properties()
    )
    frames = [method(channel, publish), pamqp_frame.marshal(head, channel)]
    cuts = [0, *(pieces or ()), len(content)]
    bodies = [content[a:b] for a, b in pairwise(cuts)]
    if content:
        frames += [pamqp_frame.marshal(body.ContentBody(piece), channel) for piece in bodies]
    return frames


def publish(*arguments: Any, **options: Any) -> bytes:
    """A publish with its content; see `publish_frames`."""
    return b"".join(publish_frames(*arguments, **options))


def settlements(channel: int, outcome: int, tags: Iterable[int], *, reject: bool = False) -> bytes:
    """Single acks, nacks or rejects."""
    return b"".join(method(channel, settlement(outcome, tag, reject=reject)) for tag in tags)


def settlement(
    outcome: int, tag: int, *, multiple: bool = False, reject: bool = False
) -> base.Frame:
    """One basic.ack, nack or reject."""
    if reject:
        return commands.Basic.Reject(tag, outcome == REQUEUE)
    if outcome == ACK:
        return commands.Basic.Ack(tag, multiple)
    return commands.Basic.Nack(tag, multiple, outcome == REQUEUE)


def heartbeat_frame() -> bytes:
    """A heartbeat."""
    return pamqp_frame.marshal(heartbeat.Heartbeat(), 0)


def some_properties(**values: Any) -> commands.Basic.Properties:
    """Properties by name."""
    return commands.Basic.Properties(**values)


# -- reading in one go, in pieces, or frame by frame


class FlatReader:
    """Turns the commands of a connection into flat ones, content in pieces put together."""

    def __init__(self) -> None:
        self.partials: dict[int, PartialContent] = {}

    def flat(self, command: Command) -> Iterator[Flat]:
        """What one command stands for."""
        if isinstance(command, PublishRun):
            yield from flat_publishes(command, command.channel)
        elif isinstance(command, SettleRun):
            last = command.first if command.multiple else command.last
            for tag in range(command.first, last + 1):
                parts = (command.outcome, tag, command.multiple)
                yield Flat("settle", command.channel, parts)
        elif isinstance(command, BegunPublish):
            self.partials[command.channel] = PartialContent.begun(command, share())
        elif command.channel in self.partials:
            yield from self._content(command)
        else:
            yield from self._frame(command)

    def _frame(self, frame: Frame) -> Iterator[Flat]:
        index = frame.payload[:4] if frame.kind == 1 else b""
        if frame.channel and index == b"\x00\x3c\x00\x28":
            decoded = decode_method(frame.payload)
            self.partials[frame.channel] = PartialContent.of_method(
                decoded, MESSAGE_BYTES_MAX, share()
            )
        elif (
            frame.channel and index[:2] == b"\x00\x3c" and index[3:] in (b"\x50", b"\x78", b"\x5a")
        ):
            yield flat_settlement(frame.channel, decode_method(frame.payload))
        else:
            yield Flat("frame", frame.channel, (frame.kind, frame.payload))

    def _content(self, frame: Frame) -> Iterator[Flat]:
        run = self.partials[frame.channel].add(frame)
        if run is not None:
            del self.partials[frame.channel]
            yield from flat_publishes(run, frame.channel)


def flat_publishes(run: PublishRun, channel: int) -> Iterator[Flat]:
    """The messages of a run; what the run says of all of them must be true of each."""
    keys = run.keys()
    records = run.records(0, 7)
    assert records.count == run.count == len(keys) >= 1
    flags = 0
    for at, key in enumerate(keys):
        properties, content = run.properties(at), run.body(at)
        assert records.routing_key(at) == key
        assert records.properties(at) == properties
        assert records.body(at) == content
        flags |= int.from_bytes(properties[:2], "big")
        parts = (run.exchange, key, run.mandatory, run.immediate, properties, content)
        yield Flat("publish", channel, (*parts, run.persistent))
    assert run.property_flags & ~CARBON_COPY == flags
    copied = [_has_copies(run.properties(at)) for at in range(run.count)]
    assert None in copied or bool(run.property_flags & CARBON_COPY) is any(copied)


def _has_copies(properties: bytes) -> bool | None:
    try:
        return not {"CC", "BCC"}.isdisjoint(Properties(properties).headers())
    except HardError:
        return None  # a run does not look into names


def flat_settlement(channel: int, decoded: Any) -> Flat:
    """A settlement that came as a frame."""
    requeue = getattr(decoded, "requeue", None)
    again = REFUSE if isinstance(decoded, commands.Basic.Reject) else REQUEUE
    outcome = ACK if requeue is None else again if requeue else DISCARD
    parts = (outcome, decoded.delivery_tag, getattr(decoded, "multiple", False))
    return Flat("settle", channel, parts)


@dataclass(frozen=True)
class Cut:
    """What a stream was cut into, how it ended, and what was left unread."""

    commands: list[Flat]
    error: tuple[type[AmqpError], int, str] | None
    unread: bytes


def cut(cutter: Cutter, chunks: Iterable[bytes], payload_max: int = 131_072) -> Cut:
    """Feed the chunks of a stream, one read each, as a connection does."""
    reader = FlatReader()
    commands_read: list[Flat] = []
    unread = b""
    try:
        for chunk in chunks:
            cutter.receive_into(unread)[: len(chunk)] = chunk
            cutter.received(len(chunk), payload_max)
            while (command := cutter.next(bool(reader.partials))) is not None:
                commands_read += reader.flat(command)
            unread = cutter.unread()
    except AmqpError as error:
        return Cut(commands_read, (type(error), error.code, error.reason), b"")
    return Cut(commands_read, None, unread)


def reference(stream: bytes) -> list[Flat]:
    """The same by pamqp, one frame after the other; the stream is valid."""
    flats: list[Flat] = []
    open_publishes: dict[int, tuple[commands.Basic.Publish, bytes, int, bytes]] = {}
    at = 0
    while at < len(stream):
        size, channel, frame = _unmarshal(stream[at:])
        payload = stream[at + 7 : at + size - 1]
        at += size
        if isinstance(frame, commands.Basic.Publish):
            open_publishes[channel] = (frame, b"", -1, b"")
            continue
        if isinstance(frame, header.ContentHeader):
            begun = open_publishes[channel][0]
            open_publishes[channel] = (begun, payload[12:], frame.body_size, b"")
        elif isinstance(frame, body.ContentBody):
            begun, properties, size, content = open_publishes[channel]
            open_publishes[channel] = (begun, properties, size, content + payload)
        elif isinstance(frame, commands.Basic.Ack | commands.Basic.Nack | commands.Basic.Reject):
            flats.append(flat_settlement(channel, frame))
            continue
        else:
            flats.append(Flat("frame", channel, (stream[at - len(payload) - 8], payload)))
            continue
        begun, properties, size, content = open_publishes[channel]
        if len(content) == size:
            del open_publishes[channel]
            flats.append(_reference_publish(channel, begun, properties, content))
    assert not open_publishes
    return flats


def _unmarshal(stream: bytes) -> tuple[int, int, Any]:
    if stream[0] == 3 and not any(stream[3:7]):  # pamqp knows no empty body frame
        return 8, int.from_bytes(stream[1:3], "big"), body.ContentBody(b"")
    return pamqp_frame.unmarshal(stream)


def _reference_publish(
    channel: int, begun: commands.Basic.Publish, properties: bytes, content: bytes
) -> Flat:
    head = header.ContentHeader()
    head.unmarshal(bytes(4) + len(content).to_bytes(8, "big") + properties)
    parts = (
        begun.exchange.encode(),
        begun.routing_key.encode(),
        begun.mandatory,
        begun.immediate,
        properties,
        content,
        head.properties.delivery_mode == 2,
    )
    return Flat("publish", channel, parts)


def byte_by_byte(stream: bytes) -> list[bytes]:
    """One read a byte."""
    return [stream[at : at + 1] for at in range(len(stream))]


# -- samples

_TABLE: dict[str, Any] = {"a": 1, "b": [True, "x", {"deep": -5}], "long": "y" * 300, "z": None}

PROPERTIES = {
    "none": some_properties(),
    "persistent": some_properties(delivery_mode=2),
    "transient": some_properties(delivery_mode=1, content_type="text/plain"),
    "headers": some_properties(headers=_TABLE),
    "carbon copy": some_properties(headers={"CC": ["other"]}),
    "all": some_properties(
        content_type="application/json",
        content_encoding="gzip",
        headers=_TABLE,
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        message_type="t",
        user_id="guest",
        app_id="app",
    ),
}

RARE: tuple[tuple[int, base.Frame], ...] = (
    (0, commands.Connection.TuneOk(2047, 131072, 60)),
    (0, commands.Connection.Close(200, "bye", 0, 0)),
    (1, commands.Channel.Open()),
    (2, commands.Channel.Flow(False)),
    (1, commands.Queue.Declare(0, "q", durable=True, arguments=dict(_TABLE))),
    (3, commands.Basic.Qos(0, 100, False)),
    (1, commands.Basic.Consume(0, "q", "tag", arguments={"x-priority": 3})),
    (1, commands.Basic.Get(0, "q", True)),
    (1, commands.Tx.Commit()),
)


def _samples() -> dict[str, bytes]:
    samples = {
        f"publishes, {name} properties": publish(1, "logs", "k", b"body", properties) * 3
        for name, properties in PROPERTIES.items()
    }
    samples |= {
        "empty bodies": publish(1, "", "q", b"") * 4,
        "keys of one length": b"".join(publish(1, "x", f"key{n}", b"%d" % n) for n in range(8)),
        "keys that return": b"".join(publish(1, "x", "ab"[n % 2], b"c") for n in range(6)),
        "exchanges change": publish(1, "x", "k", b"1") + publish(1, "y", "k", b"2"),
        "flags change": publish(1, "x", "k", b"1") + publish(1, "x", "k", b"2", mandatory=True),
        "immediate": publish(1, "x", "k", b"1", immediate=True),
        "persistence changes": b"".join(
            publish(1, "x", "k", b"c", PROPERTIES[name])
            for name in ("persistent", "persistent", "transient", "none", "persistent", "all")
        ),
        "carbon copies come and go": b"".join(
            publish(at // 2, "x", "k", b"c", PROPERTIES[name])
            for at, name in enumerate(("headers", "carbon copy", "carbon copy", "headers"), 2)
        ),
        "channels change": b"".join(publish(n % 3 + 1, "x", "k", b"c") for n in range(7)),
        "bodies in pieces": publish(1, "x", "k", b"abcdefgh", pieces=(3, 5)) * 2,
        "empty pieces": publish(1, "x", "k", b"abc", pieces=(0, 0, 1, 1)),
        "a run around a piece": publish(1, "x", "k", b"a") * 3
        + publish(1, "x", "k", b"bc", pieces=(1,))
        + publish(1, "x", "k", b"d") * 3,
        "acks": settlements(1, ACK, range(1, 40)),
        "acks with gaps": settlements(1, ACK, (1, 2, 4, 5, 5, 4, 3, 0, 1)),
        "nacks": settlements(1, REQUEUE, range(5)) + settlements(1, DISCARD, range(5, 9)),
        "rejects": settlements(1, REQUEUE, range(1, 5), reject=True)
        + settlements(1, DISCARD, range(5, 9), reject=True),
        "settlements take turns": b"".join(
            method(n % 2 + 1, settlement(n % 3, n, multiple=n % 5 == 0)) for n in range(1, 30)
        ),
        "heartbeats": heartbeat_frame() + publish(1, "x", "k", b"c") + heartbeat_frame() * 2,
        "rare methods": b"".join(method(channel, command) for channel, command in RARE),
        "a heartbeat in a content": heartbeat_frame().join(
            publish_frames(1, "x", "k", b"abcd", pieces=(2,))
        ),
        "two contents at once": _interleaved(
            publish_frames(1, "x", "k", b"abcd", pieces=(1, 2)),
            publish_frames(2, "y", "l", b"efgh", PROPERTIES["all"], pieces=(3,)),
        ),
        "acks between pieces": _interleaved(
            publish_frames(1, "x", "k", b"abcd", pieces=(2,)),
            [method(2, settlement(n % 3, n)) for n in range(1, 6)],
        ),
    }
    return samples


def _interleaved(first: list[bytes], second: list[bytes]) -> bytes:
    longest = max(len(first), len(second))
    return b"".join(
        b"".join(frames[at : at + 1]) for at in range(longest) for frames in (first, second)
    )


SAMPLES = _samples()
