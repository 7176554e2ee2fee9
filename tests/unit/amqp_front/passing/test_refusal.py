"""What clients of AMQP are told by a node without a leader."""

import pytest
from pamqp import commands, frame

from routelog.amqp_front.connections.handshake import PROTOCOL_HEADER
from routelog.amqp_front.passing.refusal import AmqpRefusal
from routelog.amqp_front.wire.methods import encode_method

CLIENT = (
    PROTOCOL_HEADER,
    encode_method(
        0,
        commands.Connection.StartOk,
        client_properties={},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    ),
    encode_method(0, commands.Connection.TuneOk, channel_max=10, frame_max=131_072, heartbeat=10),
    encode_method(0, commands.Connection.Open, virtual_host="/"),
    encode_method(0, commands.Connection.CloseOk),
)


def told(answers: bytes) -> list[object]:
    methods: list[object] = []
    while answers:
        size, _, method = frame.unmarshal(answers)
        methods.append(method)
        answers = answers[size:]
    return methods


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
def test_an_amqp_client_gets_a_close_frame_with_the_reason(piece_bytes: int) -> None:
    refusal = AmqpRefusal("orders", "nobody leads")
    sent, answers = b"".join(CLIENT), b""
    for at in range(0, len(sent), piece_bytes):
        answers += refusal.take(sent[at : at + piece_bytes])
    start, tune, close = told(answers)
    assert isinstance(start, commands.Connection.Start)
    assert isinstance(tune, commands.Connection.Tune)
    assert isinstance(close, commands.Connection.Close)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - nobody leads")
    assert refusal.is_over


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n", CLIENT[0] + b"\1\0\0\xff\xff\xff\xff", CLIENT[0] + CLIENT[4]]
)
def test_who_speaks_otherwise_is_let_go(sent: bytes) -> None:
    refusal = AmqpRefusal("orders", "nobody leads")
    refusal.take(sent)
    assert refusal.is_over
