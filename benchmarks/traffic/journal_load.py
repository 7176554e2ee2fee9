"""Publishers that wait for the confirms of one burst before they send the next, to some durable queues."""

import itertools
import math
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pamqp import commands, frame
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import STALL_SECONDS, Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames
from routelog.benchmarks.traffic.unexpected import BrokerStalled


class _Publisher:
    # One connection and what it has in flight.
    def __init__(self, url: str) -> None:
        self.connection = Connection(url)
        self.connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self.published = 0
        self._tally = ConfirmTally()

    def send(self, burst: bytes, messages: int) -> None:
        self.connection.send(burst)
        self.published += messages

    def receive(self) -> bool:
        """Whether everything sent is confirmed."""
        self._tally.feed(self.connection.receive())
        return self._tally.confirmed == self.published


class JournalLoad:
    """Publishers of persistent messages; their bursts go to the queues in turn.

    Args:
        publishers: connections.
        burst: messages that a publisher has in flight.
        run: messages in a row to one queue; divides `burst`.
        durability: of the queues.
    """

    def __init__(
        self,
        url: str,
        queues: int,
        *,
        publishers: int = 1,
        burst: int = 1,
        run: int = 1,
        body_bytes: int = 100,
        durability: str = "disk",
    ) -> None:
        self._burst = burst
        self._control = Connection(url)
        base = f"bench.{durability}.{queues}.{run}"
        self._names = [f"{base}.{number:06d}" for number in range(queues)]
        for name in self._names:
            arguments: FieldTable = {"x-durability": durability}
            declare = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
            self._control.call(declare, commands.Queue.DeclareOk)
        self._publishers = [_Publisher(url) for _ in range(publishers)]
        self._bursts = itertools.cycle(self._encoded(burst // run, run, body_bytes))

    def _encoded(self, queues_a_burst: int, run: int, body_bytes: int) -> list[bytes]:
        content = content_frames(0, body_bytes, persistent=True)
        runs = [
            (frame.marshal(commands.Basic.Publish(routing_key=name), CHANNEL) + content) * run
            for name in self._names
        ]
        in_turn = itertools.cycle(runs)
        count = math.lcm(len(runs), queues_a_burst) // queues_a_burst
        return [b"".join(itertools.islice(in_turn, queues_a_burst)) for _ in range(count)]

    def confirm_seconds(self) -> float:
        """Time from a burst of the first publisher to its last confirm."""
        publisher = self._publishers[0]
        started = time.perf_counter()
        publisher.send(next(self._bursts), self._burst)
        while not publisher.receive():
            pass
        return time.perf_counter() - started

    def confirmed_per_second(self, seconds: float) -> float:
        """Confirms a second, all publishers at work.

        Raises:
            BrokerStalled: nothing was confirmed for a long time.
        """
        waiting = {each.connection.socket.fileno(): each for each in self._publishers}
        poll = select.poll()
        for number, publisher in waiting.items():
            poll.register(number, select.POLLIN)
            publisher.send(next(self._bursts), self._burst)
        confirmed = 0
        started = time.perf_counter()
        while waiting:
            readable = poll.poll(STALL_SECONDS * 1000)
            if not readable:
                raise BrokerStalled(f"nothing was confirmed for {STALL_SECONDS} s")
            for number, _ in readable:
                publisher = waiting[number]
                if not publisher.receive():
                    continue
                if time.perf_counter() - started < seconds:
                    confirmed += self._burst
                    publisher.send(next(self._bursts), self._burst)
                else:
                    poll.unregister(number)
                    del waiting[number]
        return confirmed / seconds

    def empty(self) -> None:
        """Purge the queues, so that the next measurement is not one of their backlog."""
        for name in self._names:
            self._control.call(commands.Queue.Purge(queue=name), commands.Queue.PurgeOk)

    def close(self) -> None:
        """Delete the queues and leave."""
        for publisher in self._publishers:
            publisher.connection.close()
        for name in self._names:
            self._control.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
        self._control.close()


@contextmanager
def journal_load(
    url: str,
    queues: int,
    *,
    publishers: int = 1,
    burst: int = 1,
    run: int = 1,
    durability: str = "disk",
) -> Iterator[JournalLoad]:
    """A load whose queues are there as long as it is."""
    load = JournalLoad(
        url, queues, publishers=publishers, burst=burst, run=run, durability=durability
    )
    try:
        yield load
    finally:
        load.close()
