"""Storms of a crowd: what many clients do at once, each as fast as it can."""

import selectors
import time
from collections.abc import Callable

from pamqp import commands, frame
from pamqp.common import FieldTable

from benchmarks.connection import Connection
from benchmarks.frames import CHANNEL, content_frames

CLIENTS = 100
BODY_BYTES = 1_024
SECONDS = 3.0
WAITING_MAX = 1_000  # messages of a queue: the first are dropped
BLOCK_MESSAGES = 256  # sent as one
COMMITTED_MESSAGES = 1_000  # of each transaction
RECEIVED_BYTES_MAX = 1 << 20


class CrowdStorms:
    """What many clients can do to all others; each has a queue of its own."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._clients = max(1, int(CLIENTS * scale))
        self._seconds = SECONDS * min(1.0, 10 * scale)
        self.all: dict[str, Callable[[], None]] = {
            f"{self._clients} clients publish as fast as they can": self._publish,
            f"{self._clients} clients publish, and consume it": self._publish_and_consume,
            f"{self._clients} clients commit transactions": self._commit,
        }

    def _publish(self) -> None:
        self._flood(self._crowd(), BLOCK_MESSAGES)

    def _publish_and_consume(self) -> None:
        crowd = self._crowd()
        for number, client in enumerate(crowd):
            consume = commands.Basic.Consume(queue=_name(number), no_ack=True)
            client.call(consume, commands.Basic.ConsumeOk)
        self._flood(crowd, BLOCK_MESSAGES)

    def _commit(self) -> None:
        crowd = self._crowd()
        for client in crowd:
            client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        self._flood(crowd, COMMITTED_MESSAGES, frame.marshal(commands.Tx.Commit(), CHANNEL))

    def _crowd(self) -> list[Connection]:
        crowd = []
        arguments: FieldTable = {"x-max-length": WAITING_MAX}
        for number in range(self._clients):
            client = Connection(self._url)
            declare = commands.Queue.Declare(queue=_name(number), arguments=arguments)
            client.call(declare, commands.Queue.DeclareOk)
            crowd.append(client)
        return crowd

    def _flood(self, crowd: list[Connection], count: int, end_of_block: bytes = b"") -> None:
        """Let all send so many messages to their queues, again and again, and read whatever comes."""
        with selectors.DefaultSelector() as ready:
            for number, client in enumerate(crowd):
                block = _messages(number, count) + end_of_block
                client.socket.setblocking(False)
                events = selectors.EVENT_READ | selectors.EVENT_WRITE
                ready.register(client.socket, events, _Unsent(block))
            end = time.monotonic() + self._seconds
            while time.monotonic() < end:
                for key, events in ready.select():
                    if events & selectors.EVENT_READ:
                        key.fileobj.recv(RECEIVED_BYTES_MAX)  # type: ignore[union-attr]
                    if events & selectors.EVENT_WRITE:
                        key.data.sent(key.fileobj.send(key.data.rest))  # type: ignore[union-attr]
        for client in crowd:
            client.socket.close()


class _Unsent:
    """The rest of a block that is sent again and again."""

    def __init__(self, block: bytes) -> None:
        self.rest = self._block = memoryview(block)

    def sent(self, nbytes: int) -> None:
        self.rest = self.rest[nbytes:] or self._block


def _name(number: int) -> str:
    return f"fairness.crowd.{number}"


def _messages(number: int, count: int) -> bytes:
    publish = frame.marshal(commands.Basic.Publish(routing_key=_name(number)), CHANNEL)
    return (publish + content_frames(0, BODY_BYTES, persistent=False)) * count
