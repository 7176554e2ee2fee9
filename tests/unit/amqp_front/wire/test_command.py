import pytest
from pamqp import base, commands, frame

from routelog.amqp_front.wire.command import METHOD_WEIGHT, TOPOLOGY_WEIGHT, Frame
from routelog.amqp_front.wire.frame_cutter import FRAME_BODY, FRAME_METHOD


def method_frame(method: base.Frame) -> Frame:
    return Frame(FRAME_METHOD, 1, frame.marshal(method, 1)[7:-1])


@pytest.mark.parametrize(
    "method",
    [
        commands.Exchange.Declare(exchange="e"),
        commands.Queue.Declare(queue="q"),
        commands.Queue.Bind(queue="q", exchange="e"),
        commands.Queue.Delete(queue="q"),
    ],
)
def test_changes_of_topology_use_up_a_turn_sooner(method: base.Frame) -> None:
    assert method_frame(method).weight == TOPOLOGY_WEIGHT


@pytest.mark.parametrize("method", [commands.Channel.Open(), commands.Basic.Get(queue="q")])
def test_other_methods_count_for_some_commands(method: base.Frame) -> None:
    assert method_frame(method).weight == METHOD_WEIGHT
    assert Frame(FRAME_METHOD, 1, b"").weight == METHOD_WEIGHT


def test_content_that_looks_like_topology_counts_once() -> None:
    assert Frame(FRAME_BODY, 1, b"\x00\x32\x00\x0a").weight == 1
