"""Connections that say anything at all; afterwards everything is as it was for everybody else."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Iterable

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from scenarios.clients.bad_input import assert_nobody_noticed
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import RawClient
from scenarios.hostile.fuzzed_stream import QUEUES, STREAM, FuzzedStream
from support.broker_process import BrokerProcess

ROUNDS = int(os.environ.get("ROUTELOG_TEST_FUZZ_ROUNDS", "1"))
CONNECTIONS = 100  # of one seed
FRAMES = 60  # of one connection
ANSWER_SECONDS = 0.001  # in which a polite client looks for an answer
CHANNEL_CLOSE = b"\x00\x14\x00\x28"
TOGETHER = 6  # connections open at the same time
SEND_SECONDS_MAX = 1.0  # then the broker does not want to read more, and need not
SETTLE_SECONDS_MAX = 60.0
FAULTS = ("an error of the broker", "Traceback", "background work of the log failed")

# So small that deliveries come from segments as well as from memory, and files are recycled.
LIMITS = {
    "ROUTELOG_MEMORY_TAIL_BYTES": str(1 << 20),
    "ROUTELOG_SEGMENT_BYTES": str(1 << 16),
    "ROUTELOG_JOURNAL_FILE_BYTES": str(1 << 20),
    "ROUTELOG_FLUSH_SECONDS": "0.05",
}


class FuzzedConnection:
    """A socket into which a stream goes, and which then ends one way or another."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self._polite = seed % 2 == 0
        self._stream = FuzzedStream(seed, damage=0 if self._polite else seed % 7)
        self._socket = socket.create_connection((broker.host, broker.port), SEND_SECONDS_MAX)
        self._received = bytearray()
        self._reads = seed % 10 != 3

    def run(self, frames: int) -> None:
        """Say everything, as far as the broker listens."""
        with contextlib.suppress(OSError):
            self._socket.sendall(self._stream.handshake())
            if self._polite:
                self._converse(self._stream.undertakings(frames))
            else:
                self._pour(self._stream.damaged(frames))
            self._drain(self._stream.random.choice((0, 0, 0.02)))

    def _pour(self, stream: bytes) -> None:
        for chunk in self._stream.chunks(stream):
            self._socket.sendall(chunk)
            self._drain(0)

    def _converse(self, undertakings: list[list[bytes]]) -> None:
        # A channel that was closed is opened again, so that more is said on open channels.
        for frames in undertakings:
            self._socket.sendall(b"".join(frames))
            self._drain(ANSWER_SECONDS)
            for channel in self._closed_channels():
                for value in (commands.Channel.CloseOk(), commands.Channel.Open()):
                    self._socket.sendall(pamqp_frame.marshal(value, channel))

    def _closed_channels(self) -> list[int]:
        closed: list[int] = []
        received, at = self._received, 0
        while len(received) - at >= (size := 8 + int.from_bytes(received[at + 3 : at + 7], "big")):
            if received[at] == 1 and received[at + 7 : at + 11] == CHANNEL_CLOSE:
                closed.append(int.from_bytes(received[at + 1 : at + 3], "big"))
            at += size
        del received[:at]
        return closed

    def end(self) -> None:
        """FIN, RST, or FIN of our side alone and then the rest."""
        how = self._stream.random.randrange(3)
        with contextlib.suppress(OSError):
            if how == 0:
                self._socket.shutdown(socket.SHUT_WR)
                self._drain(0.01)
            elif how == 1:
                linger = struct.pack("ii", 1, 0)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()

    def _drain(self, seconds: float) -> None:
        while self._reads and select.select([self._socket], [], [], seconds)[0]:
            received = self._socket.recv(1 << 20)
            if not received:
                raise ConnectionResetError
            self._received += received


def fuzz(broker: BrokerProcess, seeds: Iterable[int], frames: int) -> None:
    """One connection for each seed, some of them open at the same time."""
    opened: list[FuzzedConnection] = []
    for seed in seeds:
        connection = FuzzedConnection(broker, seed)
        connection.run(frames)
        opened.append(connection)
        if len(opened) == TOGETHER:
            opened.pop(seed % TOGETHER).end()
    for connection in opened:
        connection.end()


def wait_until_sockets_are(broker: BrokerProcess, count: int) -> None:
    """The broker lets go of connections that are gone."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while broker.sockets > count:
        assert time.monotonic() < deadline, f"{broker.sockets} sockets, expected {count}"
        time.sleep(0.02)


def assert_queues_work(broker: BrokerProcess) -> None:
    """Each queue gives all that it says is ready, and then takes and gives a message."""
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        for name in (*QUEUES, STREAM):
            client.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
            client.declare(name, exclusive=False, durable=True)


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_connections_that_say_anything_disturb_nobody(fresh_broker, round_number: int) -> None:
    broker = fresh_broker(**LIMITS)
    bystander = Bystander(broker.host, broker.port)
    try:
        sockets = broker.sockets
        first = 1_000 * round_number
        fuzz(broker, range(first, first + CONNECTIONS), FRAMES)
        assert broker.alive
        assert_nobody_noticed(broker, bystander)
        wait_until_sockets_are(broker, sockets)
        assert_queues_work(broker)
    finally:
        bystander.stop()
    assert broker.terminate() == 0
    faults = [fault for fault in FAULTS if fault in broker.log_text()]
    assert not faults, broker.log_text()
