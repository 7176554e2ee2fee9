"""Storms of disconnects: one large client, or many clients at once, disconnect."""

import struct
from collections.abc import Callable
from socket import SO_LINGER, SOL_SOCKET
from time import sleep

from pamqp import commands, frame

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL

CONSUMERS = 16_376  # 8 on each channel that a connection may have, of 2,047
CHANNEL_CONSUMERS = 8  # each channel by itself is little
CROWD = 9_000
LEAVING_SECONDS = 3.0
_RESET = struct.pack("@ii", 1, 0)  # closes with a reset


class DisconnectStorms:
    """Clients that disconnect, with channels, consumers and queues."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._consumers = max(1, int(CONSUMERS * scale))
        self._crowd = max(1, int(CROWD * scale))
        self._seconds = LEAVING_SECONDS * min(1.0, 10 * scale)
        self.all: dict[str, Callable[[], None]] = {
            f"a client closes with {self._consumers:,} consumers": self._leave_with_consumers,
            f"{self._crowd:,} clients close, each with an exclusive queue": self._leave_in_a_crowd,
        }

    def _leave_with_consumers(self) -> None:
        channels = -(-self._consumers // CHANNEL_CONSUMERS)
        client = Connection(self._url, channels=channels)
        declare = commands.Queue.Declare(queue="fairness.left", auto_delete=True)
        client.call(declare, commands.Queue.DeclareOk)
        for number in range(1, channels + 1):
            consumes = [
                frame.marshal(commands.Basic.Consume(queue="fairness.left"), number)
                for _ in range(CHANNEL_CONSUMERS)
            ]
            client.send(b"".join(consumes))
            for _ in consumes:
                client.expect(commands.Basic.ConsumeOk)
        sleep(self._seconds / 3)
        client.close()

    def _leave_in_a_crowd(self) -> None:
        crowd = []
        for _ in range(self._crowd):
            client = Connection(self._url)
            declared = client.call(commands.Queue.Declare(exclusive=True), commands.Queue.DeclareOk)
            queue = declared.queue or ""
            client.send(frame.marshal(commands.Basic.Consume(queue=queue), CHANNEL))
            client.expect(commands.Basic.ConsumeOk)
            crowd.append(client)
        sleep(self._seconds / 3)
        for client in crowd:
            client.socket.setsockopt(SOL_SOCKET, SO_LINGER, _RESET)
            client.socket.close()
        sleep(self._seconds)
