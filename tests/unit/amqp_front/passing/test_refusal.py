"""What clients of a node without a leader are told."""

import msgspec
import pytest
from pamqp import commands, frame

from routelog.amqp_front.connections.handshake import PROTOCOL_HEADER
from routelog.amqp_front.passing.refusal import AmqpRefusal, HttpRefusal
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


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_http_client_gets_503_with_the_reason(method: str) -> None:
    refusal = HttpRefusal("nobody leads")
    assert refusal.take(f"{method} /api/overview HTTP/1.1\r\n".encode()) == b""
    assert not refusal.is_over
    head, _, body = refusal.take(b"Host: a\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    if method == "GET":
        assert msgspec.json.decode(body) == {"error": "no_leader", "reason": "nobody leads"}
    else:
        assert body == b""
    assert refusal.is_over


def test_a_head_without_an_end_is_not_kept() -> None:
    refusal = HttpRefusal("nobody leads")
    assert refusal.take(b"x" * 70_000) == b""
    assert refusal.is_over
