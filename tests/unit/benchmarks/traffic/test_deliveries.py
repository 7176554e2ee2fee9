"""Deliveries are counted by size, and anything that does not belong there is noticed."""

import pytest
from pamqp import commands, frame

from routelog.benchmarks.traffic.deliveries import DeliveryStream
from routelog.benchmarks.traffic.frames import body_frames, body_of, header_frame
from routelog.benchmarks.traffic.publish_run import properties_of
from routelog.benchmarks.traffic.topology import Topology
from routelog.benchmarks.traffic.unexpected import BrokerRefused, UnexpectedFrame
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

ONE = Topology(Workload(16), "b")
TWO_PRODUCERS = Topology(Workload(16, producers=2), "b")
MANY_KEYS = Topology(
    Workload(16, exchange_type=ExchangeType.HEADERS, queues=4, bindings=8, keys=8, headers=2), "b"
)


def _delivery(
    tag: int,
    index: int,
    *,
    topology: Topology = ONE,
    producer: int = 0,
    redelivered: bool = False,
    consumer_tag: str | None = None,
    key: str | None = None,
    frame_max: int = 131_072,
) -> bytes:
    """What a broker hands out for message number `index` of a producer."""
    workload = topology.workload
    routes = topology.routes_of(producer)
    route = routes[index % len(routes)]
    wanted = next(s for s in topology.subscriptions_of(0) if s.group == route.group)
    method = commands.Basic.Deliver(
        consumer_tag or wanted.consumer_tag,
        tag,
        redelivered,
        topology.exchange,
        key or route.key,
    )
    return (
        frame.marshal(method, 1)
        + header_frame(properties_of(workload, route.binding), workload.body_bytes)
        + body_frames(body_of(index, workload.body_bytes, producer), frame_max)
    )


def _feed(stream: DeliveryStream, data: bytes, step: int) -> None:
    rest = b""
    for start in range(0, len(data), step):
        rest += data[start : start + step]
        rest = rest[stream.feed(memoryview(rest)) :]


@pytest.mark.parametrize("step", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("topology", [ONE, TWO_PRODUCERS, MANY_KEYS], ids=["one", "two", "keys"])
def test_deliveries_count_whatever_the_reads(topology: Topology, step: int) -> None:
    stream = DeliveryStream(topology, 0)
    numbers = [(n % 256, n % topology.workload.producers) for n in range(600)]
    data = b"".join(
        _delivery(tag, index, topology=topology, producer=producer)
        for tag, (index, producer) in enumerate(numbers, 1)
    )
    _feed(stream, data, step)
    assert stream.received == 600
    assert stream.checksum == sum(index for index, _ in numbers)


@pytest.mark.parametrize("step", [1, 999, 5_000, 1 << 20])
def test_a_body_in_several_frames_is_one_delivery(step: int) -> None:
    topology = Topology(Workload(10_000), "b")
    stream = DeliveryStream(topology, 0)
    parts = (_delivery(n, n - 1, topology=topology, frame_max=4096) for n in range(1, 4))
    _feed(stream, b"".join(parts), step)
    assert stream.received == 3


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(_delivery(4, 3), id="lost"),
        pytest.param(_delivery(3, 1), id="doubled"),
        pytest.param(_delivery(3, 2, redelivered=True), id="redelivered"),
        pytest.param(_delivery(3, 2, consumer_tag="c00001"), id="another consumer's"),
        pytest.param(_delivery(3, 2, key="b.000001"), id="another key"),
        pytest.param(_delivery(3, 2).replace(b"mmm", b"mxm"), id="another body"),
    ],
)
def test_a_wrong_delivery_is_noticed(wrong: bytes) -> None:
    stream = DeliveryStream(ONE, 0)
    with pytest.raises(UnexpectedFrame, match="at number 3"):
        stream.feed(memoryview(_delivery(1, 0) + _delivery(2, 1) + wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"index": 7, "producer": 9}, id="no such producer"),
        pytest.param({"index": 7, "redelivered": True}, id="redelivered"),
        pytest.param({"index": 7, "key": "k000006"}, id="another key"),
        pytest.param({"index": 7, "consumer_tag": "c00000"}, id="another group's queue"),
    ],
)
def test_what_varies_has_to_fit_together(wrong: dict[str, int | str | bool]) -> None:
    stream = DeliveryStream(MANY_KEYS, 0)
    stream.feed(memoryview(_delivery(1, 3, topology=MANY_KEYS)))
    if wrong.get("producer"):
        data = _delivery(2, 7, topology=MANY_KEYS).replace(
            body_of(7, 16), body_of(7, 16, producer=9)
        )
    else:
        data = _delivery(2, topology=MANY_KEYS, **wrong)
    with pytest.raises(UnexpectedFrame):
        stream.feed(memoryview(data))


def test_a_lost_and_a_doubled_message_of_two_producers_show_in_the_sum() -> None:
    stream = DeliveryStream(TWO_PRODUCERS, 0)
    indexes = [0, 1, 1, 3]
    data = b"".join(
        _delivery(tag, index, topology=TWO_PRODUCERS) for tag, index in enumerate(indexes, 1)
    )
    stream.feed(memoryview(data))
    assert (stream.received, stream.checksum) == (4, 5)


@pytest.mark.parametrize(
    "first", [_delivery(2, 0), _delivery(1, 1), _delivery(1, 0, redelivered=True)]
)
def test_a_wrong_first_delivery_is_noticed(first: bytes) -> None:
    with pytest.raises(UnexpectedFrame):
        DeliveryStream(ONE, 0).feed(memoryview(first))


@pytest.mark.parametrize("before", [b"", _delivery(1, 0)], ids=["first", "later"])
def test_a_closed_channel_is_told_with_its_reason(before: bytes) -> None:
    closed = frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 60, 40), 1)
    with pytest.raises(BrokerRefused, match="404 NOT_FOUND"):
        DeliveryStream(ONE, 0).feed(memoryview(before + closed))
