"""What clients of the brokers do, and what they must find in the end: each confirmed message, once."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pamqp import commands
from simulation.broker import FIRST, Broker
from support.queue_samples import declare_queue

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import EXPIRING, PERSISTENT, Reason
from routelog.vhosts import GroupOptions, QueueProperties, VirtualHost, value_of
from routelog.vhosts.messages.delivery import ReturnReason
from routelog.vhosts.publishing.internal_publish import OutgoingMessage

TO_MORGUE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
SHORT_MS = 1_500
QUEUES: dict[str, dict[str, object]] = {
    "plain": {},
    "morgue": {},
    "due": {},
    "firsts": {},
    "short": {"x-message-ttl": SHORT_MS, **TO_MORGUE},
    "few": {"x-max-length": 4, **TO_MORGUE},
    "urgent": {"x-max-priority": 3},
    "unique": {"x-message-deduplication": True},
    "tries": {
        "x-delivery-limit": 2,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 300,
        **TO_MORGUE,
    },
    "kept": {"x-retention": "1h"},
}
EXCHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "later": ("x-delayed-message", {"x-delayed-type": "fanout"}, "due"),
    "once": (
        "x-message-deduplication",
        {"x-cache-size": 1_000, "x-cache-persistence": "disk"},
        "firsts",
    ),
}
GROUP = "readers"
TEMPORARY = "temporary"
HOUR = 3_600_000  # ms
DELAYS = (100, 700, 2_000, HOUR, HOUR, HOUR)
ENDED = 2 * 3_600.0  # seconds, in which all are due
DEDUPLICATED = {"unique", "once"}


class Clients:
    """All clients of one history.

    Attributes:
        confirmed: bodies of messages that must be there, each once.
        settled: bodies that nobody must get again, as their acknowledgement is committed, and how far the
            journal was then. Who does not know yet that he is deposed may hand them out.
    """

    def __init__(self, randomness: Random, confirm: Callable[[], None]) -> None:
        self.confirmed: set[bytes] = set()
        self.settled: dict[bytes, int] = {}
        self._acknowledged: set[bytes] = set()
        self._randomness = randomness
        self._confirm = confirm
        self._published = 0
        self._keyed: dict[str, list[bytes]] = {name: [] for name in DEDUPLICATED}

    async def declare(self, vhost: VirtualHost) -> None:
        """Declare what is not there."""
        for name, arguments in QUEUES.items():
            if name not in vhost.queues:
                properties = QueueProperties(name, durable=True, arguments=arguments)
                declared = declare_queue(vhost, properties, None)[1]
                if declared is not None:
                    await declared
        for name, (kind, arguments, queue) in EXCHANGES.items():
            answer = vhost.declare_exchange(Exchange(name, kind, durable=True, arguments=arguments))
            if answer is not None:
                await answer
            bound = vhost.bind(Binding(name, queue, "queue", ""))
            if bound is not None:
                await bound
        _, joined = vhost.hosted.groups.join(vhost.queues["kept"], GroupOptions(GROUP), "first", 0)
        if joined is not None:
            await joined

    async def act(self, broker: Broker) -> None:
        """Do something with a broker that serves."""
        vhost = broker.vhost
        assert vhost is not None
        chance = self._randomness.random()
        if chance < 0.65:
            self._publish(broker, vhost)
        elif chance < 0.9:
            await self._consume(broker, vhost)
        elif chance < 0.92:
            self._read(vhost)
        elif chance < 0.94:
            await self._cancel(broker, vhost)
        elif chance < 0.96:
            self._turn_over(vhost)
        elif not broker.logs.checkpoints.lock.locked():
            broker.begin(broker.logs.checkpoints.take())

    def _publish(self, broker: Broker, vhost: VirtualHost) -> None:
        choice = self._randomness
        targets = (
            "plain",
            "later",
            "later",
            "later",
            "later",
            "once",
            "short",
            "few",
            "urgent",
            "unique",
            "tries",
            "kept",
            TEMPORARY,
        )
        for _ in range(choice.choice((1, 1, 1, 3))):
            target = choice.choice(targets)
            exchange = target if target in EXCHANGES else ""
            body = self._body(target)
            is_persistent = target != "plain" or choice.random() < 0.7
            headers: dict[str, Any] = {}
            if target == "later":
                headers["x-delay"] = choice.choice(DELAYS)
            elif target in DEDUPLICATED:
                headers["x-deduplication-header"] = body.decode()
            properties = commands.Basic.Properties(
                headers=headers or None,
                priority=choice.randrange(4) if target == "urgent" else None,
                delivery_mode=2 if is_persistent else 1,
                expiration=f"{SHORT_MS}" if target == "short" else None,
            )
            message = OutgoingMessage(properties.marshal(), (target.encode(),), body)
            attributes = PERSISTENT if is_persistent else 0
            if target == "short":
                # So that segments do not merge it: a merged batch expires up to a second late, and each
                # broker merges others. I18 compares two brokers at one time.
                attributes |= EXPIRING
            posted = vhost.post.publish(exchange, [message], attributes)
            if is_persistent and target != TEMPORARY:
                confirm = self._confirmed(body)
                posted.needed.when_covered(confirm)

    def _body(self, target: str) -> bytes:
        # Who has got no confirm publishes again.
        keyed = self._keyed.get(target)
        if keyed and self._randomness.random() < 0.4:
            return self._randomness.choice(keyed[-4:])
        self._published += 1
        body = b"%d" % self._published
        if keyed is not None:
            keyed.append(body)
        return body

    def _confirmed(self, body: bytes) -> Callable[[], None]:
        def confirmed() -> None:
            self.confirmed.add(body)
            self._confirm()

        return confirmed

    async def _consume(self, broker: Broker, vhost: VirtualHost) -> None:
        choice = self._randomness
        name = choice.choice(list(QUEUES))
        queue = vhost.queues[name]
        for _ in range(choice.choice((1, 2, 5))):
            delivery = await value_of(queue.get())  # perhaps of a segment
            if delivery is None:
                return
            body = bytes(delivery.records.body(delivery.index))
            if self.settled.get(body, broker.applied + 1) <= broker.applied:
                raise AssertionError(f"{body!r} is delivered from {name}, and was acknowledged")
            partition, end = delivery.partition, delivery.offset + 1
            fate = choice.random()
            if fate < 0.5 and name not in DEDUPLICATED:  # or its key could come again
                partition.settle(delivery.offset, end)
                self._acknowledged.add(body)
                broker.logs.journal.when_committed(self._settled(body, broker))
            elif fate < 0.7 and "x-dead-letter-exchange" in QUEUES[name]:
                partition.settle(delivery.offset, end, Reason.REJECTED)
            else:
                partition.give_back(delivery.offset, end, ReturnReason.FAILED)
                partition.on_ready()

    def _settled(self, body: bytes, broker: Broker) -> Callable[[], None]:
        return lambda: self.settled.update({body: broker.applied})

    async def _cancel(self, broker: Broker, vhost: VirtualHost) -> None:
        held = vhost.hosted.delays.held("later")
        assert held is not None
        found = [each for each in await held.schedule.page(FIRST, 100) if held.is_held(each)]
        if found and (record := held.in_memory(found[-1])) is not None and held.cancel(found[-1]):
            body = bytes(record.body)
            self._acknowledged.add(body)
            broker.logs.journal.when_committed(self._settled(body, broker))

    def _turn_over(self, vhost: VirtualHost) -> None:
        # Whatever becomes of its messages: nobody counts on them.
        if (queue := vhost.queues.get(TEMPORARY)) is not None:
            vhost.delete_queue(queue)
            return
        is_durable = vhost.routing.version % 2 == 0
        vhost.declare_queue(QueueProperties(TEMPORARY, durable=is_durable), None)
        name = (
            f"{vhost.routing.version}"  # of one that is not durable, and goes with its last binding
        )
        vhost.declare_exchange(Exchange(name, "fanout", auto_delete=True))
        vhost.bind(Binding(name, "amq.fanout", "exchange", ""))
        for queue in vhost.queues.values():
            if queue.declaring is None:
                vhost.bind(Binding(name, queue.name, "queue", ""))

    def _read(self, vhost: VirtualHost) -> None:
        group = vhost.queues["kept"].groups.get(GROUP)
        if group is None or group.creating is not None:
            return
        for partition in group.partitions:
            delivery = partition.take(self._randomness.randrange(1, 5), 1 << 20)
            if delivery is not None:
                delivery.partition.settle(delivery.offset, delivery.offset + delivery.count)

    def wrong(self, found: Sequence[tuple[str, bytes]]) -> str | None:
        """What is wrong with the messages that are there."""
        counts = Counter(body for _, body in found)
        lost = sorted(self.confirmed - counts.keys() - self._acknowledged, key=int)
        if lost:
            return f"{len(lost)} confirmed messages are gone: {lost[:3]}"
        for body, count in counts.items():
            places = [name for name, each in found if each == body]
            if count > 1:
                return f"{body!r} is there {count} times: in {places}"
            if body in self.settled:
                return f"{body!r} is in {places}, and was acknowledged"
        return None
