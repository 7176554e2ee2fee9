"""Deliveries are counted by size, and anything that does not belong there is noticed."""

import pytest
from pamqp import commands, frame

from benchmarks.deliveries import DeliveryStream
from benchmarks.frames import content_frames
from benchmarks.unexpected import UnexpectedFrame


def _delivery(tag: int, index: int, redelivered: bool = False) -> bytes:
    method = commands.Basic.Deliver("c", tag, redelivered, "", "q")
    return frame.marshal(method, 1) + content_frames(index, 16, persistent=False)


def _deliveries(count: int) -> list[bytes]:
    return [_delivery(tag, tag - 1) for tag in range(1, count + 1)]


def _feed(stream: DeliveryStream, data: bytes, step: int) -> None:
    rest = b""
    for start in range(0, len(data), step):
        rest += data[start : start + step]
        rest = rest[stream.feed(memoryview(rest)) :]


@pytest.mark.parametrize("step", [1, 7, 100, 1 << 20])
def test_deliveries_count_whatever_the_reads(step: int) -> None:
    stream = DeliveryStream("q", 16)
    _feed(stream, b"".join(_deliveries(600)), step)
    assert stream.received == 600


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(_delivery(4, 3), id="lost"),
        pytest.param(_delivery(3, 1), id="doubled"),
        pytest.param(_delivery(3, 2, redelivered=True), id="redelivered"),
        pytest.param(
            frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 60, 40), 1) * 4, id="closed"
        ),
    ],
)
def test_a_wrong_delivery_is_noticed(wrong: bytes) -> None:
    stream = DeliveryStream("q", 16)
    with pytest.raises(UnexpectedFrame):
        stream.feed(memoryview(b"".join(_deliveries(2)) + wrong))


@pytest.mark.parametrize("first", [_delivery(2, 0), _delivery(1, 1), _delivery(1, 0, True)])
def test_a_wrong_first_delivery_is_noticed(first: bytes) -> None:
    with pytest.raises(UnexpectedFrame):
        DeliveryStream("q", 16).feed(memoryview(first))
