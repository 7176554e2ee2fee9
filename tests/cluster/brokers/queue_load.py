"""Clients of all nodes, which publish to queues of each kind and take from them, and a ledger of it.

Each message is published once and never again, so one that is there twice was doubled by a node; but where an
exchange lets each key through once, what was not confirmed is published until it is.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from random import Random

from aio_pika.abc import AbstractConnection
from cluster.brokers.client_rounds import ANSWER_SECONDS_MAX, ClientRounds, Session, cancelled
from cluster.brokers.lane_clients import LaneConsumer, LanePublisher
from cluster.brokers.lanes import DURABLE, Lane
from cluster.brokers.ledger import Ledger
from cluster.brokers.topology_changes import TopologyChanges

PAUSE_SECONDS = 0.05  # between two messages of a slot, so that the nodes have some of the processor
QUIET_SECONDS = 1.0  # without a delivery: nothing comes any more


class QueueLoad:
    """See the module.

    Args:
        urls: of the nodes, by name.
        lanes: kinds of queues; with all of them, queues are declared and deleted, too.

    Attributes:
        ledger: what clients were told.
    """

    def __init__(self, urls: Mapping[str, str], lanes: Sequence[Lane] = (DURABLE,)) -> None:
        self.lanes = lanes
        self.ledger = Ledger()
        self.rounds = ClientRounds(urls)
        self._randomness = Random(1)
        self._topology = TopologyChanges()
        self._publishers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin: clients of each lane, which go to the next node when theirs fails."""
        pause = PAUSE_SECONDS * len(self.lanes)
        for at, lane in enumerate(self.lanes):
            for place in range(lane.publishers):
                publisher = LanePublisher(self.ledger, lane, pause, self._randomness)
                self._publishers.append(
                    self.rounds.start(f"{lane.name} publisher", at + place, publisher.work)
                )
            for place, consumption in enumerate(lane.consumptions, start=1):
                consumer = LaneConsumer(self.ledger, lane, consumption)
                self._consumers.append(
                    self.rounds.start(f"{consumption.queue} consumer", at + place, consumer.work)
                )
        if len(self.lanes) > 1:
            self._publishers.append(self.rounds.start("topology", 0, self._topology.work))

    @property
    def confirmed(self) -> set[int]:
        """The numbers of what was confirmed."""
        return self.ledger.confirmed

    async def stop_publishing(self) -> None:
        """Publish no more."""
        await cancelled(self._publishers)

    async def drain(self, seconds: float) -> None:
        """Wait until everything that was confirmed has come, and nothing comes any more; then take no more.

        Raises:
            TimeoutError: not in time; nobody consumes any more.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                await self.rounds.once("last look", self._look_around)
                while not self._is_drained(began):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        finally:
            await cancelled(self._consumers)

    async def stop(self) -> None:
        """End all clients."""
        await cancelled(self._publishers + self._consumers)

    async def until_confirmed(self, after: float, seconds: float = 30.0) -> Session:
        """The first client that published after a moment and had that confirmed."""
        async with asyncio.timeout(seconds):
            while True:
                sessions = self.rounds.sessions
                told = [each for each in sessions if each.published > after]
                if told:
                    return min(told, key=lambda each: each.confirmed)
                await asyncio.sleep(0.005)

    def _is_drained(self, began: float) -> bool:
        is_quiet = time.monotonic() - max(began, self.ledger.last_delivery) > QUIET_SECONDS
        return is_quiet and not self.ledger.lost

    async def _look_around(self, connection: AbstractConnection, session: Session) -> None:
        """What is on its way for good, and whether queues are there as it was answered."""
        channel = await connection.channel()
        for lane in self.lanes:
            if not lane.leftover:
                continue
            queue = await channel.get_queue(lane.leftover)
            hearing = self.ledger.hear(lane, lane.leftover, "")
            while message := await queue.get(fail=False, timeout=ANSWER_SECONDS_MAX):
                marked = bool(message.redelivered)
                number = self.ledger.came(hearing, message.body, is_marked=marked)
                self.ledger.leftover.add(number)
                await message.ack()
        self.ledger.wrong += await self._topology.differences(connection)
