"""Names, bindings and routing keys of a workload, and who has to do with which of them.

Queues that get the same messages are a group. Binding `b` leads to all queues of group `b % groups`, and key
`k` is meant for binding `k % bindings`. Producers share the keys, consumers the queues: number `n` has every
one whose number leaves `n`, divided by how many there are.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pamqp import base, commands
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.unexpected import RunFailed
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

ROUTE_HEADER = "n"  # headers exchange: the number of the binding


def route_value(binding: int) -> str:
    """What `ROUTE_HEADER` says; of one length, so that deliveries have one length too."""
    return f"{binding:06d}"


class Route(NamedTuple):
    """One routing key, and what it leads to.

    Args:
        binding: its number; `ROUTE_HEADER` has it where headers decide.
        group: the queues it reaches.
    """

    key: str
    binding: int
    group: int


@dataclass(frozen=True)
class Subscription:
    """One consumer's place at one queue."""

    queue: str
    consumer_tag: str
    group: int


@dataclass(frozen=True)
class Topology:
    """What a workload needs on the broker; `prefix` keeps it apart from what others have there."""

    workload: Workload
    prefix: str

    @cached_property
    def exchange(self) -> str:
        """Its name; empty for the default exchange."""
        return "" if self.workload.exchange_type is ExchangeType.DEFAULT else f"{self.prefix}.x"

    @cached_property
    def queues(self) -> list[str]:
        """Names, all of one length, so that deliveries have one length too."""
        return [f"{self.prefix}.{number:06d}" for number in range(self.workload.queues)]

    def routes_of(self, producer: int) -> list[Route]:
        """The keys that a producer uses in turn."""
        if len(self._routes) < self.workload.producers:
            return [self._routes[producer % len(self._routes)]]
        return self._routes[producer :: self.workload.producers]

    @cached_property
    def _routes(self) -> list[Route]:
        return [self._route(number) for number in range(self.workload.key_count)]

    def subscriptions_of(self, consumer: int) -> list[Subscription]:
        """The queues that a consumer reads."""
        queues, consumers = self.workload.queues, self.workload.consumers
        mine = range(consumer, queues, consumers) if queues >= consumers else [consumer % queues]
        return [
            Subscription(self.queues[q], f"c{number:05d}", q // self.workload.copies)
            for number, q in enumerate(mine)
        ]

    def prepare(self) -> None:
        """Compute what takes time, so that processes forked from here on have it."""
        _ = self._producers_of_group

    def sole_producer_of(self, consumer: int) -> int | None:
        """The producer whose messages this consumer gets, each of them, once and in order; or None."""
        workload = self.workload
        subscriptions = self.subscriptions_of(consumer)
        if len(subscriptions) > 1 or workload.consumers > workload.queues:
            return None
        producers = self._producers_of_group[subscriptions[0].group]
        if len(producers) > 1:
            return None
        (producer,) = producers
        return producer if self._groups_of[producer] == {subscriptions[0].group} else None

    @cached_property
    def _producers_of_group(self) -> list[set[int]]:
        found: list[set[int]] = [set() for _ in range(self.workload.groups)]
        for producer, groups in enumerate(self._groups_of):
            for group in groups:
                found[group].add(producer)
        return found

    @cached_property
    def _groups_of(self) -> list[set[int]]:
        producers = range(self.workload.producers)
        return [{route.group for route in self.routes_of(producer)} for producer in producers]

    def _route(self, number: int) -> Route:
        binding = number % self.workload.binding_count
        return Route(self._key(number, binding), binding, binding % self.workload.groups)

    def _key(self, number: int, binding: int) -> str:
        match self.workload.exchange_type:
            case ExchangeType.DEFAULT:
                return self.queues[number]
            case ExchangeType.DIRECT:
                return f"b{binding:06d}"
            case ExchangeType.TOPIC:
                return f"b{binding:06d}.k{number:06d}"
        return f"k{number:06d}"

    # -- on the broker

    def declare(self, connection: Connection) -> None:
        """Make the exchange, the queues and the bindings.

        Raises:
            RunFailed: the broker refused.
        """
        if self.exchange:
            declare = commands.Exchange.Declare(
                exchange=self.exchange, exchange_type=self.workload.exchange_type
            )
            connection.call(declare, commands.Exchange.DeclareOk)
        deque(connection.call_each(self._queue_declarations(), commands.Queue.DeclareOk), 0)
        deque(connection.call_each(self._bindings(), commands.Queue.BindOk), 0)

    def delete(self, connection: Connection) -> int:
        """Remove everything again; returns the messages that were left in the queues."""
        deletions = (commands.Queue.Delete(queue=queue) for queue in self.queues)
        left = sum(
            d.message_count or 0 for d in connection.call_each(deletions, commands.Queue.DeleteOk)
        )
        if self.exchange:
            gone = commands.Exchange.Delete(exchange=self.exchange)
            connection.call(gone, commands.Exchange.DeleteOk)
        return left

    def _queue_declarations(self) -> Iterator[base.Frame]:
        arguments: FieldTable = dict(self.workload.queue_arguments)
        for queue in self.queues:
            yield commands.Queue.Declare(
                queue=queue, durable=self.workload.durable, arguments=arguments
            )

    def _bindings(self) -> Iterator[base.Frame]:
        if not self.exchange:
            return
        copies = self.workload.copies
        for binding in range(self.workload.binding_count):
            group = binding % self.workload.groups
            key, arguments = self._pattern(binding)
            for queue in self.queues[group * copies : (group + 1) * copies]:
                yield commands.Queue.Bind(
                    queue=queue,
                    exchange=self.exchange,
                    routing_key=key,
                    arguments=arguments,
                )

    def _pattern(self, binding: int) -> tuple[str, FieldTable]:
        match self.workload.exchange_type:
            case ExchangeType.TOPIC:
                return f"b{binding:06d}.*", {}
            case ExchangeType.HEADERS:
                return "", {"x-match": "all", ROUTE_HEADER: route_value(binding)}
        return f"b{binding:06d}", {}


def removed_quietly(topology: Topology, uri: str) -> None:
    """Remove what an earlier failure left; one that the broker has no ears for is not reported twice."""
    try:
        connection = Connection(uri)
        topology.delete(connection)
        connection.close()
    except RunFailed:
        return
