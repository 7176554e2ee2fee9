"""basic.get-ok and basic.return as pamqp reads them."""

import pytest
from pamqp import body, commands, header
from pamqp import frame as pamqp_frame

from amqp_front.content_frames import content_frames


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 201])
def test_a_message_is_cut_into_frames(size: int) -> None:
    properties = commands.Basic.Properties(app_id="app", headers={"a": 1}).marshal()
    content = bytes(at % 251 for at in range(size))
    stream = content_frames(
        7,
        100,
        properties,
        content,
        commands.Basic.Return,
        reply_code=312,
        reply_text="NO_ROUTE",
        exchange=b"x",
        routing_key=b"k",
    )
    read = []
    while stream:
        used, channel, frame = pamqp_frame.unmarshal(stream)
        assert channel == 7
        read.append(frame)
        stream = stream[used:]
    method, head, *pieces = read
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.exchange, method.routing_key) == (312, "x", "k")
    assert isinstance(head, header.ContentHeader)
    assert (head.body_size, head.properties.app_id) == (size, "app")
    bodies = [piece.value for piece in pieces if isinstance(piece, body.ContentBody)]
    sizes = [len(each) for each in bodies]
    assert sizes == [100] * (size // 100) + [size % 100] * (size % 100 > 0)
    assert len(bodies) == len(pieces)
    assert b"".join(bodies) == content
