"""A write that is too much for one turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from support.loop_services import services_of

from routelog.broker.sockets.client_socket import ClientSocket
from routelog.broker.sockets.long_write import OUTBOX_BYTES_HIGH, TURN_BYTES_MAX
from routelog.vhosts import NodeCounters

MIB = 1 << 20


class Loop:
    """A loop whose turns the test takes."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def call_soon(self, call: Callable[..., None], *arguments: object) -> None:
        self.soon.append((call, arguments))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None: ...

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for call, arguments in soon:
            call(*arguments)


class Transport:
    """Sends so many bytes when it is asked to; tells its protocol when to pause."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.unsent = 0
        self.client: Connection
        self.paused = False
        self.closed = self.ended = self.takes_all = False

    def get_extra_info(self, name: str) -> None: ...

    def set_write_buffer_limits(self, *, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, part: bytes) -> None:
        self.writelines([part])

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def writelines(self, parts: Sequence[bytes]) -> None:
        assert not self.ended
        for part in parts:
            self.written += part
            self.unsent += 0 if self.takes_all else len(part)
        if self.unsent > OUTBOX_BYTES_HIGH and not self.paused:
            self.paused = True
            self.client.pause_writing()

    def send(self, size: int) -> None:
        self.unsent = max(0, self.unsent - size)
        if self.paused and self.unsent <= OUTBOX_BYTES_HIGH // 4:
            self.paused = False
            self.client.resume_writing()

    def close(self) -> None:
        self.closed = True


class Connection:
    traffic = NodeCounters().traffic

    def __init__(self) -> None:
        self.transport, self.loop = Transport(), Loop()
        self.transport.client = self
        self.stalled = False
        self.resumed = 0
        transport = cast(asyncio.Transport, self.transport)
        self.socket = ClientSocket(transport, services_of(self.loop), self)

    def pause_writing(self) -> None:
        self.stalled = True

    def resume_writing(self) -> None:
        if self.socket.resumed():
            self.stalled = False
            self.resumed += 1


def content(size: int) -> bytes:
    return (b"%08d" * (size // 8 + 1) % tuple(range(size // 8 + 1)))[:size]


def test_only_so_much_goes_out_in_a_turn_in_order_and_whole() -> None:
    connection = Connection()
    transport = connection.transport
    large = content(5 * TURN_BYTES_MAX + 3)
    connection.socket.write(
        [b"head", *(large[at : at + 100_000] for at in range(0, len(large), 100_000))]
    )
    assert connection.stalled
    turns = 0
    while connection.stalled:
        before = len(transport.written)
        connection.socket.write([b"behind %d;" % turns])
        assert len(transport.written) == before
        transport.send(transport.unsent)
        connection.loop.turn()
        assert len(transport.written) - before <= TURN_BYTES_MAX
        turns += 1
    assert turns == 5
    behind = b"".join(b"behind %d;" % turn for turn in range(turns))
    assert bytes(transport.written) == b"head" + large + behind
    connection.socket.write([b"last"])
    assert transport.written.endswith(b"last")
    assert connection.resumed == 1


def test_nothing_is_handed_over_to_a_client_that_does_not_read() -> None:
    connection = Connection()
    transport = connection.transport
    connection.socket.write([content(2 * MIB), content(3 * MIB)])
    for _ in range(5):
        connection.loop.turn()
    assert len(transport.written) == TURN_BYTES_MAX  # more than OUTBOX_BYTES_HIGH is unsent
    assert not connection.loop.soon
    transport.send(TURN_BYTES_MAX)
    assert len(transport.written) == 2 * TURN_BYTES_MAX
    assert connection.stalled


def test_what_waits_counts_as_unsent() -> None:
    connection = Connection()
    connection.socket.write([b"x" * (40 * MIB), b"y" * (23 * MIB)])
    assert not connection.socket.outbox_full
    connection.socket.write([b"z" * (2 * MIB)])
    assert connection.socket.outbox_full


def test_a_socket_that_is_closed_sends_what_waits_before() -> None:
    connection = Connection()
    large = content(3 * MIB)
    connection.socket.write([large, b"end"])
    connection.socket.write([b"close-ok"])
    connection.socket.close()
    assert bytes(connection.transport.written) == large + b"end" + b"close-ok"
    connection.loop.turn()
    assert bytes(connection.transport.written) == large + b"end" + b"close-ok"


def test_a_long_write_that_was_handed_over_writes_nothing_behind_the_end() -> None:
    connection = Connection()
    connection.transport.takes_all = True
    connection.socket.write([content(3 * MIB), b"end"])
    connection.socket.end()
    assert connection.transport.ended
    assert connection.loop.soon
    connection.loop.turn()
    assert connection.transport.written.endswith(b"end")


def test_a_megabyte_with_its_frames_goes_out_at_once() -> None:
    connection = Connection()
    connection.socket.write([b"frame" * 50, b"a" * MIB, b"end"])
    assert len(connection.transport.written) == MIB + 253
    assert not connection.loop.soon


def test_nothing_is_handed_to_a_transport_that_is_gone() -> None:
    connection = Connection()
    connection.socket.write([content(3 * MIB), b"end"])
    connection.transport.closed = True
    connection.loop.turn()
    connection.socket.close()
    assert len(connection.transport.written) == TURN_BYTES_MAX
