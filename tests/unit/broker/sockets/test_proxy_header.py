"""PROXY headers of both versions: taken to the last byte, and not a byte further."""

import asyncio
import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.broker.sockets.proxy_header import (
    SIGNATURE,
    UNKNOWN,
    Endpoint,
    MalformedProxyHeader,
    PassedClient,
    passed_header,
    proxied_client,
    take_passed_header,
)

FOUR = bytes([192, 0, 2, 7]) + bytes([198, 51, 100, 1]) + struct.pack(">HH", 40_312, 5672)
SIX = bytes.fromhex("20010db8" + "00" * 11 + "07") * 2 + struct.pack(">HH", 40_312, 5672)


def version_2(command: int = 0x21, family: int = 0x11, block: bytes = FOUR) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(block)) + block


def taken(header: bytes, step: int = 4_096) -> tuple[Endpoint | None, bytes]:
    """Who is proxied, and what was left, when the socket gives at most `step` bytes at a time."""
    left = header

    async def receive(count: int) -> bytes:
        nonlocal left
        given, left = left[: min(count, step)], left[min(count, step) :]
        return given

    return asyncio.run(proxied_client(receive, 7)), left


@pytest.mark.parametrize("step", [1, 5, 4_096])
@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40312 5672\r\n", Endpoint("192.0.2.7", 40_312)),
        (b"PROXY TCP6 2001:db8::7 2001:db8::7 0 5672\r\n", Endpoint("2001:db8::7", 0)),
        (b"PROXY UNKNOWN\r\n", Endpoint(UNKNOWN, 7)),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", Endpoint(UNKNOWN, 7)),
        (version_2(), Endpoint("192.0.2.7", 40_312)),
        (version_2(family=0x21, block=SIX), Endpoint("2001:db8::7", 40_312)),
        (version_2(block=FOUR + b"\x04\x00\x03abc"), Endpoint("192.0.2.7", 40_312)),
        (version_2(command=0x20, family=0, block=b""), Endpoint(UNKNOWN, 7)),
        (version_2(command=0x20), Endpoint(UNKNOWN, 7)),
        (version_2(family=0x31, block=b"\0" * 216), Endpoint(UNKNOWN, 7)),
    ],
)
def test_a_header_is_taken_and_nothing_behind_it(
    header: bytes, client: Endpoint, step: int
) -> None:
    assert taken(header + b"AMQP\x00\x00\x09\x01", step) == (client, b"AMQP\x00\x00\x09\x01")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"AMQP\x00\x00\x09\x01AMQP", "sent no PROXY header"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40312\r\n", "another form"),
        (b"PROXY TCP4 192.0.2.7  198.51.100.1 1 2\r\n", "another form"),
        (b"PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n", "another form"),
        (b"PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n", "without addresses"),
        (b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n", "another family"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n", "without ports"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n", "without ports"),
        ("PROXY TCP4 192.0.2.7 198.51.100.1 ٣ 2\r\n".encode(), "without ports"),
        (b"PROXY " + b"x" * 200, "more than 107 bytes"),
        (version_2(command=0x11), "command 0x11"),
        (version_2(command=0x22), "command 0x22"),
        (version_2(block=FOUR[:-1]), "shorter than its addresses"),
        (version_2(block=b"\0" * 4_097), "4097 bytes"),
        (b"PROXY TCP4 192", "ended inside"),
        (version_2()[:-1], "ended inside"),
        (b"", "ended inside"),
    ],
)
def test_anything_else_is_refused_with_a_reason(header: bytes, reason: str) -> None:
    with pytest.raises(MalformedProxyHeader, match=reason):
        taken(header)


@given(st.binary(max_size=64), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE]))
def test_noise_is_refused_or_read(noise: bytes, start: bytes) -> None:
    with contextlib.suppress(MalformedProxyHeader):
        taken(start + noise)


# -- between the nodes of a cluster

PASSED = [
    PassedClient("192.0.2.7", 40_312),
    PassedClient("2001:db8::7", 1, is_tls=True),
]


@pytest.mark.parametrize("client", PASSED, ids=str)
def test_what_a_node_says_of_a_client_is_read_back(client: PassedClient) -> None:
    header = passed_header(client)
    assert take_passed_header(header + b"GET /") == (client, len(header))
    for size in range(len(header)):
        assert take_passed_header(header[:size]) is None


def test_the_zone_of_an_address_is_not_passed_on() -> None:
    taken_client = take_passed_header(passed_header(PassedClient("fe80::7%eth0", 1)))
    assert taken_client is not None
    assert taken_client[0] == PassedClient("fe80::7", 1)


@pytest.mark.parametrize("client", PASSED, ids=str)
def test_it_is_a_header_of_version_2_for_others_who_learn_the_address_alone(
    client: PassedClient,
) -> None:
    found, left = taken(passed_header(client) + b"GET /")
    assert found == Endpoint(client.address, client.port)
    assert left == b"GET /"


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 192.0.2.7 198.51.100.1 40312 5672\r\n",
        b"AMQP\x00\x00\x09\x01",
        version_2(command=0x20),  # for itself
        version_2(family=0),
        version_2(block=FOUR[:4]),
        version_2(block=FOUR + b"\x20\x00\x01\x01"),
        version_2(block=FOUR + b"\x20\x00\x05\x00\x00\x00\x00\x00"),
        version_2(block=FOUR + bytes(9)),
    ],
)
def test_what_no_node_says_is_refused(header: bytes) -> None:
    with pytest.raises(MalformedProxyHeader):
        take_passed_header(header)


@given(st.binary(max_size=300))
def test_whatever_comes_it_is_a_header_or_none_or_refused(octets: bytes) -> None:
    for start in (b"", SIGNATURE, SIGNATURE + b"\x21\x11"):
        with contextlib.suppress(MalformedProxyHeader):
            take_passed_header(start + octets)
