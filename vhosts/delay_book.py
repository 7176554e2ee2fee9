"""The delayed message exchanges of a virtual host, with what they hold: opened, stored, deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

import msgspec

from exchanges import DELAYED_TYPE, TopologyChange, held_name, holding_exchange
from log_backend import (
    Change,
    Durability,
    LogStore,
    MetadataStore,
    PartitionLog,
    Schedule,
    ScheduledRecord,
)
from vhosts.due_delivery import DueDelivery
from vhosts.held_messages import HeldMessages
from vhosts.held_page import HeldPage, held_page
from vhosts.held_scan import HeldScan
from vhosts.message_delay import PARTS
from vhosts.partition_numbers import PartitionNumbers
from vhosts.surroundings import Surroundings
from vhosts.topology_record import DelayRecord, delay_change, prefix
from vhosts.topology_writer import TopologyWriter


class DelayBook:
    """What is held, by exchange."""

    def __init__(
        self,
        vhost: str,
        logs: LogStore,
        writer: TopologyWriter,
        numbers: PartitionNumbers,
        surroundings: Surroundings,
        durability: Durability,
    ) -> None:
        self._vhost = vhost
        self._logs = logs
        self._writer = writer
        self._numbers = numbers
        self._surroundings = surroundings
        self._durability = durability
        self._held: dict[str, HeldMessages] = {}
        self._deliveries: dict[str, DueDelivery] = {}

    def load(self, store: MetadataStore) -> None:
        """Open what the store knows, before the log store recovers."""
        for _, entry in store.scan(prefix("delays", self._vhost)):
            record = msgspec.json.decode(entry.value, type=DelayRecord)
            ends = self._logs.schedules.ends(record.partitions[0])
            self._open(record.exchange, record.partitions, ends, durable=True)

    def recovered(self) -> None:
        """The log store has recovered: what is held becomes due from now on."""
        for held in self._held.values():
            held.recovered()
            self._begin(held)

    def held(self, exchange: str) -> HeldMessages | None:
        """What an exchange holds; None: it is no delayed message exchange."""
        return self._held.get(exchange)

    def recipient(self, name: str) -> HeldMessages | None:
        """What a route leads to by this name; None: a queue."""
        exchange = holding_exchange(name)
        return None if exchange is None else self._held.get(exchange)

    async def page(self, held: HeldMessages, first: ScheduledRecord, count: int) -> HeldPage:
        """See `held_page`."""
        return await held_page(held, self._logs, first, count)

    @property
    def schedules(self) -> Collection[int]:
        """The numbers of all schedules."""
        return [held.schedule.number for held in self._held.values()]

    # -- with the topology

    def changes(self, change: TopologyChange) -> tuple[list[Change], Callable[..., None]]:
        """What to store together with a change of exchanges.

        Returns:
            It, and what to call with the awaitable of the stored change once that is submitted.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        declared = [x for x in change.exchanges_declared if x.type == DELAYED_TYPE]
        deleted = [x for x in change.exchanges_deleted if x.type == DELAYED_TYPE]
        if not declared and not deleted:
            return [], _nothing
        self._writer.check()
        changes: list[Change] = []
        opening: list[Callable[[], None]] = []
        gone: list[PartitionLog] = []
        for exchange in deleted:
            held = self._close(exchange.name)
            gone += held.logs
            for log in held.logs:
                changes += self._logs.close_partition(log)
            if exchange.durable:
                changes.append(delay_change(self._vhost, exchange.name, [], deleted=True))
        for exchange in declared:
            numbers, number_change = self._numbers.take(PARTS)
            if exchange.durable:
                changes += [number_change, delay_change(self._vhost, exchange.name, numbers)]
            opening.append(partial(self._declared, exchange.name, numbers, exchange.durable))

        def submitted(durable: Awaitable[int] | None) -> None:
            for each in opening:
                each()
            if gone and durable is not None:
                asyncio.ensure_future(durable).add_done_callback(partial(self._remove_files, gone))

        return changes, submitted

    def _declared(self, exchange: str, numbers: list[int], durable: bool) -> None:
        self._begin(self._open(exchange, numbers, {}, durable=durable))

    def _remove_files(self, gone: list[PartitionLog], deleted: asyncio.Future[int]) -> None:
        if deleted.cancelled():
            return
        error = deleted.exception()
        if isinstance(error, Exception):
            self._logs.deletion_failed(error)
            return
        for log in gone:
            if log.durable:
                self._logs.remove_files(log)

    # -- what is open

    def _open(
        self, exchange: str, numbers: list[int], ends: Mapping[int, int], *, durable: bool
    ) -> HeldMessages:
        logs = [
            self._logs.open_partition(
                number,
                self._vhost,
                held_name(exchange),
                part,
                durable=durable,
                durability=self._durability,
            )
            for part, number in enumerate(numbers)
        ]
        held = self._held[exchange] = HeldMessages(
            exchange,
            logs,
            lambda on_near: Schedule(
                numbers[0],
                self._logs.schedules,
                [ends.get(part, 0) for part in range(PARTS)],
                self._surroundings.call_later,
                on_near,
            ),
        )
        return held

    def _begin(self, held: HeldMessages) -> None:
        delivery = self._deliveries[held.exchange] = DueDelivery(held, self._surroundings)
        held.schedule.check_ends([log.next_offset for log in held.logs])
        for part in range(PARTS):
            HeldScan(
                held,
                part,
                self._surroundings.call_soon,
                self._surroundings.call_later,
                delivery.look_soon,
            ).run()
        held.schedule.read_ahead()

    def _close(self, exchange: str) -> HeldMessages:
        held = self._held.pop(exchange)
        self._deliveries.pop(exchange).stop()
        held.schedule.delete()
        return held


def _nothing(durable: object) -> None:
    return
