"""What a message alone costs, in calls of Python and writes: they are exact, whatever else the machine does.

When more are called, the failed test lists them all; take the budget down when there are fewer.
"""

import asyncio
import select
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from pamqp import commands
from scenarios.clients.raw_client import RawClient, message, method
from support.waiting import until

import routelog
from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.broker import Broker
from routelog.log_backend import SystemClock
from routelog.log_backend.records import record_batch

pytestmark = pytest.mark.skipif(
    not str(record_batch.__file__).endswith(".so"), reason="the kernel is not compiled"
)

OURS = str(Path(routelog.__file__).parent)
ROUNDS = 50  # the least of them counts: timers run in some

CALLS_MAX = 43  # of Python, in the broker's code: asyncio's own and compiled ones are not counted
WRITES_MAX = 2  # a confirm and a delivery
TRANSIENT = b"\x10\x00\x01"  # flags of the properties, and a delivery mode
TURNS = 10  # what the ack leads to has its turn of the loop, too


class Calls:
    """Counts what is called while it is the profiler of its thread."""

    def __init__(self) -> None:
        self.called: Counter[str] = Counter()
        self.writes = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """See `sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.called[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}"] += 1
        elif event == "c_call" and getattr(argument, "__name__", "") in ("send", "sendmsg"):
            self.writes += 1


class Pair:
    """A publisher with confirms and a consumer, each with a connection of its own."""

    def __init__(self, host: str, port: int) -> None:
        self.publisher = RawClient(host, port).open()
        self.consumer = RawClient(host, port).open()
        for each in (self.publisher, self.consumer):
            each.open_channel()
        self.publisher.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self.publisher.declare("q", exclusive=False)
        self.consumer.call(commands.Basic.Qos(prefetch_count=10), commands.Basic.QosOk)
        self.consumer.call(commands.Basic.Consume(queue="q"), commands.Basic.ConsumeOk)

    def close(self) -> None:
        """Hang up."""
        self.publisher.socket.close()
        self.consumer.socket.close()

    def publish(self) -> None:
        """Publish a message, in one write."""
        self.publisher.send_bytes(message("q", b"x" * 100, TRANSIENT))

    def ack(self) -> None:
        """Acknowledge all that was delivered."""
        self.consumer.send_bytes(method(60, 80, bytes(8) + b"\x01"))

    def read(self) -> tuple[commands.Basic.Ack, commands.Basic.Deliver]:
        """What came for one message."""
        confirm = self.publisher.expect(commands.Basic.Ack)
        delivery = self.consumer.expect(commands.Basic.Deliver)
        self.consumer.receive_content()
        return confirm, delivery

    def has_both(self) -> bool:
        """Whether there is something to read for each of them."""
        sockets = [self.publisher.socket, self.consumer.socket]
        readable = select.poll()  # select.select takes no number above 1023
        for each in sockets:
            readable.register(each, select.POLLIN)
        return len(readable.poll(0)) == 2


async def test_a_message_alone_takes_no_more_calls_than_it_did(tmp_path: Path) -> None:
    config = BrokerConfig(data_dir=tmp_path, port=0, management=False)
    broker = Broker(config, AmqpFront(config, "node", SystemClock()))
    address = await broker.start()
    pair: Pair | None = None
    try:
        pair = await asyncio.to_thread(Pair, address.host, address.port)
        (vhost,) = broker.store.vhosts.all()
        queue = vhost.queues["q"]
        rounds = []
        for _ in range(ROUNDS):
            calls = Calls()
            sys.setprofile(calls)
            try:
                pair.publish()
                await until(pair.has_both)
                pair.ack()
                await until(lambda: queue.unacked == 0)
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            finally:
                sys.setprofile(None)
            pair.read()
            rounds.append(calls)
        least = min(rounds, key=lambda each: each.called.total())
        found = "\n".join(f"{count:3} {name}" for name, count in least.called.most_common())
        total = least.called.total()
        assert total <= CALLS_MAX, f"{total} calls for a message, {CALLS_MAX} before:\n{found}"
        assert least.writes == WRITES_MAX
    finally:
        if pair is not None:
            pair.close()
        await broker.stop()
