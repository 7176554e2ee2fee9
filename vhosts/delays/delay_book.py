"""The delayed message exchanges of a virtual host, with their messages: opened, stored, deleted."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from routelog.exchanges import Exchange, holding_exchange
from routelog.log_backend import (
    EXCHANGE_MARK,
    OF_THIS_RUN,
    Change,
    Durability,
    LogStore,
    Schedule,
    ScheduledRecord,
)
from routelog.vhosts.delays.due_delivery import DueDelivery
from routelog.vhosts.delays.held_messages import HeldMessages
from routelog.vhosts.delays.held_page import HeldPage, held_page
from routelog.vhosts.delays.held_scan import HeldScan
from routelog.vhosts.delays.message_delay import PARTS
from routelog.vhosts.rules.rule_services import RuleServices
from routelog.vhosts.stored.topology_record import delay_change


class DelayBook:
    """The held messages of all delayed message exchanges of a virtual host."""

    def __init__(
        self,
        vhost: str,
        logs: LogStore,
        services: RuleServices,
        durability: Durability,
    ) -> None:
        self._vhost = vhost
        self._logs = logs
        self._rule_services = services
        self._durability = durability
        self._held_messages: dict[str, HeldMessages] = {}
        self._deliveries: dict[str, DueDelivery] = {}
        self._is_started = False

    def recovered(self) -> None:
        """The log store has recovered: count the held messages."""
        for held in self._held_messages.values():
            held.recovered()

    def start(self) -> None:
        """Begin to deliver messages when they are due."""
        self._is_started = True
        for held in self._held_messages.values():
            self._begin(held)

    @property
    def count(self) -> int:
        """How many messages are held."""
        return sum(held.count for held in self._held_messages.values())

    def held(self, exchange: str) -> HeldMessages | None:
        """The held messages of an exchange; None: it is no delayed message exchange."""
        return self._held_messages.get(exchange)

    def recipient(self, name: str) -> HeldMessages | None:
        """The recipient that a name in a route stands for; None: the name is a queue's."""
        exchange = holding_exchange(name)
        return None if exchange is None else self._held_messages.get(exchange)

    async def page(self, held: HeldMessages, first: ScheduledRecord, count: int) -> HeldPage:
        """See `held_page`."""
        return await held_page(held, self._logs, first, count)

    @property
    def schedules(self) -> Collection[int]:
        """The numbers of all schedules that are kept over a start."""
        numbers = (held.schedule.number for held in self._held_messages.values())
        return [number for number in numbers if number < OF_THIS_RUN]

    # -- with the topology

    def deleted(self, exchange: Exchange) -> tuple[list[Change], list[Callable[[], None]]]:
        """An exchange was deleted.

        Returns:
            Metadata changes to apply together with its deletion, and what to call when they are durable.
        """
        held = self._held_messages.pop(exchange.name, None)
        if held is None:
            return [], []
        self._deliveries.pop(exchange.name).stop()
        held.schedule.close()
        changes = self._logs.close_partitions(*held.logs)
        if not exchange.durable:
            held.schedule.delete()
            return [], []
        changes.append(delay_change(self._vhost, exchange.name, [], deleted=True))
        return changes, [held.schedule.delete, partial(self._logs.remove_files, *held.logs)]

    def open(self, exchange: Exchange, numbers: Sequence[int]) -> None:
        """Open what an exchange holds, on partitions of these numbers; if stored, before recovery."""
        logs = [
            self._logs.open_partition(
                number,
                self._vhost,
                EXCHANGE_MARK + exchange.name,
                part,
                durable=exchange.durable,
                durability=self._durability,
            )
            for part, number in enumerate(numbers)
        ]
        schedules, number = self._logs.schedules, numbers[0]
        if logs[0].durability is Durability.MEMORY:
            number += OF_THIS_RUN  # nobody else knows which offsets are given
        ends = schedules.ends(number) if number < OF_THIS_RUN else {}
        held = self._held_messages[exchange.name] = HeldMessages(
            exchange.name,
            logs,
            lambda on_near: Schedule(
                number,
                schedules,
                [ends.get(part, 0) for part in range(PARTS)],
                lambda part: logs[part].visible_end,
                self._rule_services.call_later,
                on_near,
            ),
            self._logs.journal.when_committed if exchange.durable else _at_once,
        )
        if self._is_started:
            self._begin(held)

    def _begin(self, held: HeldMessages) -> None:
        delivery = self._deliveries[held.exchange] = DueDelivery(held, self._rule_services)
        held.schedule.check_ends([log.next_offset for log in held.logs])
        for part in range(PARTS):
            HeldScan(
                held,
                part,
                self._rule_services.scheduler,
                self._rule_services.call_later,
                delivery.look_soon,
            ).run()
        held.schedule.read_ahead()


def _at_once(done: Callable[[], None]) -> None:
    done()
