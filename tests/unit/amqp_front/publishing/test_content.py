"""Content in pieces: one publish, or the refusal that fits."""

from typing import Any

import pytest
from pamqp import commands
from support.intake_samples import share

from routelog.amqp_front.publishing.content import EMPTY_BODIES_MAX, PartialContent
from routelog.amqp_front.wire.command import Frame, PublishRun
from routelog.amqp_front.wire.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    AmqpError,
    HardError,
    SoftError,
)

PUBLISH = commands.Basic.Publish(0, "logs", "key", True, False)


def header(size: int, class_id: int = 60, weight: int = 0, **properties: Any) -> Frame:
    octets = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big") + size.to_bytes(8, "big")
    return Frame(2, 1, octets + commands.Basic.Properties(**properties).marshal())


def body(payload: bytes) -> Frame:
    return Frame(3, 1, payload)


def partial(message_bytes_max: int = 1000) -> PartialContent:
    return PartialContent.of_method(PUBLISH, message_bytes_max, share())


def refused(content: PartialContent, *frames: Frame) -> AmqpError:
    for frame in frames[:-1]:
        assert content.add(frame) is None
    with pytest.raises(AmqpError) as caught:
        content.add(frames[-1])
    return caught.value


@pytest.mark.parametrize("pieces", [[b"abcd"], [b"a", b"bcd"], [b"", b"ab", b"", b"cd"]])
def test_a_publish_is_complete_with_its_last_piece(pieces: list[bytes]) -> None:
    content = partial()
    runs = [content.add(header(4, delivery_mode=2)), *(content.add(body(p)) for p in pieces)]
    assert runs[:-1] == [None] * len(pieces)
    run = runs[-1]
    assert isinstance(run, PublishRun)
    assert (run.exchange, run.keys(), run.body(0)) == (b"logs", [b"key"], b"abcd")
    assert run.properties(0) == commands.Basic.Properties(delivery_mode=2).marshal()
    assert (run.mandatory, run.immediate, run.persistent, run.count) == (True, False, True, 1)


def test_an_empty_body_is_complete_with_its_header() -> None:
    run = partial().add(header(0))
    assert run is not None
    assert (run.body(0), run.persistent) == (b"", False)


def test_a_complete_publish_owns_its_bytes() -> None:
    content = partial()
    content.add(header(3))
    piece = bytearray(b"abc")
    run = content.add(body(piece))
    piece[:] = b"xyz"
    assert run is not None
    records = run.records(0, 1)
    assert (run.body(0), records.body(0), records.routing_key(0)) == (b"abc", b"abc", b"key")


def test_a_frame_out_of_turn_is_refused() -> None:
    for error in (
        refused(partial(), body(b"abc")),
        refused(partial(), header(4), header(4)),
        refused(partial(), header(4), body(b"ab"), header(4)),
    ):
        assert (type(error), error.code) == (HardError, UNEXPECTED_FRAME)


@pytest.mark.parametrize("frame", [header(4, class_id=61), header(4, weight=1)])
def test_a_header_of_another_class_is_refused(frame: Frame) -> None:
    assert refused(partial(), frame).code == UNEXPECTED_FRAME


@pytest.mark.parametrize("size", range(14))
def test_a_header_that_is_too_short_is_refused(size: int) -> None:
    error = refused(partial(), Frame(2, 1, header(4).payload[:size]))
    assert (type(error), error.code) == (HardError, FRAME_ERROR)


def test_malformed_properties_are_refused() -> None:
    error = refused(partial(), Frame(2, 1, header(4).payload[:12] + b"\x20\0\0\0\0\x03\x01a?"))
    assert type(error) is HardError
    error = refused(partial(), Frame(2, 1, header(4).payload[:12] + b"\x10\0\x07"))
    assert (type(error), error.code) == (SoftError, PRECONDITION_FAILED)


def test_a_message_above_the_limit_is_refused_by_its_header() -> None:
    assert partial(1000).add(header(1000)) is None
    error = refused(partial(1000), header(1001))
    assert (type(error), error.code) == (SoftError, PRECONDITION_FAILED)
    assert error.reason == "message size 1001 is larger than 1000"


def test_more_content_than_announced_is_refused() -> None:
    error = refused(partial(), header(4), body(b"ab"), body(b"cde"))
    assert (type(error), error.code) == (HardError, FRAME_ERROR)


def test_empty_pieces_are_limited_in_a_row() -> None:
    content = partial()
    content.add(header(4))
    for _ in range(3):
        for _ in range(EMPTY_BODIES_MAX):
            assert content.add(body(b"")) is None
        assert content.add(body(b"a")) is None
    error = refused(content, *([body(b"")] * (EMPTY_BODIES_MAX + 1)))
    assert (type(error), error.code) == (HardError, FRAME_ERROR)
