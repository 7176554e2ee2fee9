"""Storms of many clients at once, each as fast as it can."""

import selectors
import time
from collections.abc import Callable

from pamqp import commands, frame
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames

CLIENTS = 100
WAITING_CLIENTS = 300
BODY_BYTES = 1_024
SECONDS = 3.0
WAITING_MAX = 1_000  # messages of a queue: the first are dropped
BLOCK_MESSAGES = 256  # sent as one
COMMITTED_MESSAGES = 1_000  # of each transaction
LITTLE_MESSAGES = 12  # sent, and then their confirms are waited for
FANNED_QUEUES = 60  # of each client
FANNED_MAX = 10  # messages of each: all together stay in memory
RECEIVED_BYTES_MAX = 1 << 20


class CrowdStorms:
    """Storms of many clients, each with a queue of its own."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._clients = max(1, int(CLIENTS * scale))
        self._waiting_clients = max(1, int(WAITING_CLIENTS * scale))
        self._seconds = SECONDS * min(1.0, 10 * scale)
        self.all: dict[str, Callable[[], None]] = {
            f"{self._clients} clients publish as fast as they can": self._publish,
            f"{self._clients} clients publish, and consume it": self.publish_and_consume,
            f"{self._clients} clients commit transactions": self._commit,
            f"{self._waiting_clients} clients send 12 KiB and wait for the confirms": self._wait,
            f"{self._clients} clients publish to {FANNED_QUEUES} queues each, and wait": self._fan_out,
        }

    def _publish(self) -> None:
        self._flood(self._crowd(self._clients), BLOCK_MESSAGES)

    def publish_and_consume(self) -> None:
        """Each client publishes to its queue and consumes from it, for some seconds."""
        crowd = self._crowd(self._clients)
        for number, client in enumerate(crowd):
            consume = commands.Basic.Consume(queue=_name(number), no_ack=True)
            client.call(consume, commands.Basic.ConsumeOk)
        self._flood(crowd, BLOCK_MESSAGES)

    def _commit(self) -> None:
        crowd = self._crowd(self._clients)
        for client in crowd:
            client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        self._flood(crowd, COMMITTED_MESSAGES, frame.marshal(commands.Tx.Commit(), CHANNEL))

    def _wait(self) -> None:
        crowd = self._crowd(self._waiting_clients)
        self._ask(crowd, [_messages(number, LITTLE_MESSAGES) for number in range(len(crowd))])

    def _fan_out(self) -> None:
        crowd = self._crowd(self._clients)
        blocks = []
        for number, client in enumerate(crowd):
            exchange = _name(number)
            declare = commands.Exchange.Declare(exchange=exchange, exchange_type="fanout")
            client.call(declare, commands.Exchange.DeclareOk)
            for at in range(FANNED_QUEUES):
                queue = f"{exchange}.{at}"
                _declare(client, queue, FANNED_MAX)
                bind = commands.Queue.Bind(queue=queue, exchange=exchange)
                client.call(bind, commands.Queue.BindOk)
            blocks.append(_messages(number, 1, exchange))
        self._ask(crowd, blocks)

    def _crowd(self, clients: int) -> list[Connection]:
        crowd = []
        for number in range(clients):
            client = Connection(self._url)
            _declare(client, _name(number))
            crowd.append(client)
        return crowd

    def _ask(self, crowd: list[Connection], blocks: list[bytes]) -> None:
        """Have each client send its block, and again after each confirm."""
        with selectors.DefaultSelector() as ready:
            for client, block in zip(crowd, blocks, strict=True):
                client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                client.socket.sendall(block)
                ready.register(client.socket, selectors.EVENT_READ, block)
            end = time.monotonic() + self._seconds
            while time.monotonic() < end:
                for key, _ in ready.select():
                    key.fileobj.recv(RECEIVED_BYTES_MAX)  # type: ignore[union-attr]
                    key.fileobj.sendall(key.data)  # type: ignore[union-attr]
        for client in crowd:
            client.socket.close()

    def _flood(self, crowd: list[Connection], count: int, end_of_block: bytes = b"") -> None:
        """Have all clients send so many messages to their queues, repeatedly, and read all answers."""
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


def _declare(client: Connection, queue: str, waiting_max: int = WAITING_MAX) -> None:
    arguments: FieldTable = {"x-max-length": waiting_max}
    declare = commands.Queue.Declare(queue=queue, arguments=arguments)
    client.call(declare, commands.Queue.DeclareOk)


def _messages(number: int, count: int, exchange: str = "") -> bytes:
    method = commands.Basic.Publish(exchange=exchange, routing_key=_name(number))
    publish = frame.marshal(method, CHANNEL)
    return (publish + content_frames(0, BODY_BYTES, persistent=False)) * count
