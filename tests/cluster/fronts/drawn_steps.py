"""What clients do, drawn from a seed: few names, so that steps meet."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CLIENTS = 3
CHANNELS = (1, 2)
QUEUES = ("q0", "q1", "q2")
EXCHANGES = ("e0", "e1")
KEYS = ("k.a", "k.b", "j.a")
TAGS = ("t0", "t1")
MANY = 200  # a prefetch that nobody uses up
HOUR = 3_600_000  # of milliseconds: nothing that is drawn ends by itself

Arguments = Mapping[str, Any]

# How a queue is declared.
DURABLE: Arguments = {"durable": True}
LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"}
ROUTED_LETTERS = {"x-dead-letter-exchange": "e0"}
QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}
SINGLE = {"x-single-active-consumer": True}
RETRIES = {"x-delayed-retry-min": HOUR}
QUEUE_ARGUMENTS: tuple[Arguments, ...] = (
    {},
    {},
    LETTERS,
    ROUTED_LETTERS,
    {"x-max-length": 2},
    {"x-max-length": 2, **LETTERS},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length": 2, "x-overflow": "reject-publish-dlx", **LETTERS},
    {"x-max-length-bytes": 8},
    {"x-message-ttl": HOUR},
    {"x-message-ttl": 0, **LETTERS},
    {"x-expires": HOUR},
    {"x-max-priority": 3},
    {"x-max-priority": 3, "x-max-length": 3, **LETTERS},
    SINGLE,
    {**SINGLE, **QUORUM},
    {**SINGLE, **LETTERS},
    QUORUM,
    {**QUORUM, "x-delivery-limit": 1},
    {**QUORUM, "x-delivery-limit": 1, **LETTERS},
    {"x-delivery-limit": 0, **LETTERS},
    {"x-message-deduplication": True},
    {"x-message-deduplication": True, "x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-message-deduplication": True, **LETTERS},
    {"x-retention": "7D"},
    {"x-partitions": 2},
    {"x-partitions": 3, "x-partition-key": "h", **LETTERS},
    {"x-partitions": 2, "x-partition-strategy": "round-robin"},
    {"x-partitions": 2, "x-partition-strategy": "header", "x-max-length": 3},
    {"x-delayed-retry-type": "all", **RETRIES},
    {"x-delayed-retry-type": "failed", **RETRIES},
    {"x-delayed-retry-type": "returned", **RETRIES, **QUORUM},
    STREAM,
    STREAM,
    {**STREAM, "x-partitions": 2},
    {**STREAM, "x-partitions": 3, "x-partition-key": "h"},
    {**STREAM, "x-partitions": 2, "x-partition-strategy": "header"},
)
QUEUE_WAYS: tuple[Arguments, ...] = (
    DURABLE,
    DURABLE,
    DURABLE,
    DURABLE,
    {"durable": False},
    {"durable": True, "exclusive": True},
    {"durable": False, "exclusive": True},
    {"durable": True, "auto_delete": True},
    {"durable": False, "auto_delete": True},
)
EXCHANGE_KINDS: tuple[Arguments, ...] = (
    {"exchange_type": "direct"},
    {"exchange_type": "fanout"},
    {"exchange_type": "topic"},
    {"exchange_type": "headers"},
    {"exchange_type": "direct", "arguments": {"alternate-exchange": "e1"}},
    {"exchange_type": "topic", "arguments": {"alternate-exchange": "e0"}},
    {"exchange_type": "x-consistent-hash"},
    {"exchange_type": "x-consistent-hash", "arguments": {"hash-header": "h"}},
    {"exchange_type": "x-modulus-hash"},
    {"exchange_type": "x-recent-history", "arguments": {"x-recent-history-length": 2}},
    {"exchange_type": "x-message-deduplication", "arguments": {"x-cache-size": 2}},
    {
        "exchange_type": "x-message-deduplication",
        "arguments": {"x-cache-size": 10, "x-cache-persistence": "disk"},
    },
    {"exchange_type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}},
    {"exchange_type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}},
)
STATEFUL = ("x-recent-history", "x-message-deduplication", "x-delayed-message")
EXCHANGE_WAYS: tuple[Arguments, ...] = (
    DURABLE,
    DURABLE,
    DURABLE,
    {"durable": False},
    {"durable": True, "auto_delete": True},
)
CONSUMED: tuple[Arguments, ...] = ({}, {}, {}, {"x-priority": 1}, {"x-priority": 2})
READ: tuple[Arguments, ...] = (
    {"x-stream-offset": "first"},
    {"x-stream-offset": "next"},
    {"x-stream-offset": 2},
    {"x-stream-offset": -2},
    {"x-group": "g"},
    {"x-group": "g", "x-stream-offset": "first"},
    {"x-group": "g", "x-stream-offset": "first", "x-priority": 1},
    {"x-group": "f", "x-stream-offset": "first", "x-filter": "h = 'x'"},
    {"x-group": "h", "x-stream-offset": -3, "x-priority": 1},
    {"x-stream-offset": "first", "x-filter": "h = 'x' OR routing_key LIKE 'k.%'"},
    {"x-stream-offset": "first", "x-stream-filter": "x"},
    {"x-stream-offset": "first", "x-stream-filter": ["x", {"h": "y"}]},
    {"x-stream-offset": "first", "x-filter": "h ="},
)
HEADERS: tuple[Arguments, ...] = (
    {},
    {},
    {},
    {"h": "x"},
    {"h": "y"},
    {"h": "x", "x-stream-filter-value": "x,y"},
    {"x-deduplication-header": "1"},
    {"x-deduplication-header": "2"},
    {"x-deduplication-header": "1", "h": "x"},
    {"x-delay": HOUR},
    {"x-delay": 0},
    {"x-delay": -1},
    {"CC": ["q1"]},
    {"CC": ["k.a"], "BCC": ["q2"]},
    {"x-partition": 1},
    {"x-recent-history-no-store": True},
)


@dataclass(frozen=True)
class Step:
    """What one client does on one of its channels.

    Attributes:
        hurries: the next step does not wait until everybody has everything, if nobody consumes.
        dares: also if it is known to be refused.
    """

    client: int
    channel: int
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    hurries: bool = False
    dares: bool = True

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        hurry = " (hurries)" if self.hurries else ""
        return f"{self.client}.{self.channel} {self.kind}({options}){hurry}"


class Drawing:
    """The steps of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        # Through exchanges that delay or remember, clients of other nodes have no transactions.
        self._transacts = self._is(0.5)
        self._queues = {name: self._queue_kind() for name in QUEUES}
        self._exchanges = {name: self._exchange_kind() for name in EXCHANGES}
        self._sent = 0
        # Some histories are about one thing.
        self._weights = {
            name: weight * self._random.choice((1, 1, 1, 0, 3)) for name, weight in WEIGHTS.items()
        }

    def steps(self, count: int = 40) -> list[Step]:
        """First what they are about, then so many of any kind."""
        queues = [self._step("declare", queue=name, **kind) for name, kind in self._queues.items()]
        exchanges = [
            self._step("declare_exchange", exchange=name, **kind)
            for name, kind in self._exchanges.items()
        ]
        binds = [self._bind() for _ in range(3)]
        modes = [
            Step(client, channel, mode)
            for client in range(CLIENTS)
            for channel in CHANNELS
            if (mode := self._of(("confirm", "confirm", self._mode(), "")))
        ]
        drawn: list[Step] = []
        names, weights = list(self._weights), list(self._weights.values())
        if not any(weights):
            weights = [1] * len(names)
        for name in self._random.choices(names, weights, k=count):
            drawn.append(getattr(self, f"_{name}")())
        return [*exchanges, *queues, *binds, *modes, *drawn]

    def _step(self, kind: str, **options: Any) -> Step:
        client = self._random.choices(range(CLIENTS), (5, 3, 2))[0]
        channel = self._random.choices(CHANNELS, (3, 1))[0]
        return Step(client, channel, kind, options, hurries=self._is(0.3), dares=self._is(0.1))

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def _of(self, things: Any) -> Any:
        return self._random.choice(things)

    def _queue(self) -> str:
        return self._random.choices(QUEUES, (5, 2, 1))[0]

    def _queue_kind(self) -> Arguments:
        arguments = self._of(QUEUE_ARGUMENTS)
        is_durable = "x-queue-type" in arguments and self._is(0.95)
        return {**(DURABLE if is_durable else self._of(QUEUE_WAYS)), "arguments": arguments}

    def _exchange_kind(self) -> Arguments:
        kinds = [it for it in EXCHANGE_KINDS if it["exchange_type"] not in STATEFUL]
        kind = self._of(kinds if self._transacts else EXCHANGE_KINDS)
        return {**self._of(EXCHANGE_WAYS), **kind}

    def _declare(self) -> Step:
        name = self._queue()
        kind = self._queues[name] if self._is(0.8) else self._queue_kind()
        if self._is(0.4):
            return self._step("declare", queue=name, passive=True)
        return self._step("declare", queue=name, nowait=self._is(0.1), **kind)

    def _declare_exchange(self) -> Step:
        name = self._of(EXCHANGES)
        if self._is(0.2):
            return self._step("declare_exchange", exchange=name, passive=True)
        kind = self._exchanges[name] if self._is(0.8) else self._exchange_kind()
        if self._is(0.05):
            kind = {**kind, "internal": True}
        return self._step("declare_exchange", exchange=name, **kind)

    def _bind(self) -> Step:
        key = self._of((*KEYS, "k.*", "#", "1", "2"))
        arguments = self._of(({}, {}, {"h": "x"}, {"x-match": "any", "h": "y"}))
        kind = "unbind" if self._is(0.2) else "bind"
        source = self._of((*EXCHANGES, *EXCHANGES, "amq.topic", "amq.fanout"))
        if "hash" in self._exchanges.get(source, {}).get("exchange_type", "") and self._is(0.9):
            key = self._of(("1", "2"))
        if self._is(0.2):
            target = {"destination": self._of(EXCHANGES), "source": source}
            return self._step(f"{kind}_exchange", **target, routing_key=key, arguments=arguments)
        target = {"queue": self._queue(), "exchange": source}
        return self._step(kind, **target, routing_key=key, arguments=arguments)

    def _publish(self) -> Step:
        runs = []
        # What of a write a consumer gets first depends on when it is looked at, if it has two.
        priority = self._of((None, None, 0, 1, 2, 5))
        # What expires at once makes room, but not for the rest of its write.
        expires = self._is(0.2)
        count = 1 if expires else self._random.choices((1, 2, 3), (6, 2, 1))[0]
        for _ in range(count):
            exchange = self._of(("", "", "", *EXCHANGES, *EXCHANGES, "amq.topic", "amq.fanout"))
            key = self._queue() if not exchange and self._is(0.95) else self._of(KEYS)
            runs.append(
                {
                    "exchange": exchange,
                    "key": key,
                    "first": self._sent,
                    "count": self._random.choices((1, 2, 4, 7), (5, 2, 2, 1))[0],
                    "headers": self._of(HEADERS),
                    "mandatory": self._is(0.4),
                    "delivery_mode": self._of((1, 2, 2)),
                    "priority": priority,
                    "expiration": "0" if expires else self._of((None, None, str(HOUR))),
                }
            )
            self._sent += runs[-1]["count"]
        settled = self._settlement() if self._is(0.3) else None
        immediate = self._is(0.01)
        return self._step("publish", runs=runs, settled=settled, immediate=immediate)

    def _settlement(self) -> dict[str, Any]:
        return {
            "which": self._random.randrange(60),
            "how": self._of(("ack", "ack", "ack", "nack", "nack", "reject")),
            "multiple": self._is(0.3),
            "requeue": self._is(0.5),
        }

    def _settle(self) -> Step:
        return self._step("settle", **self._settlement())

    def _consume(self) -> Step:
        queue = self._queue()
        kind = self._queues[queue]["arguments"]
        reads = kind.get("x-queue-type") == "stream" or ("x-retention" in kind and self._is(0.5))
        reads = reads != self._is(0.02)
        prefetch = self._of((1, 1, 2, 5) if reads else (None, None, 0, 1, 1, 2, 5))
        if "x-partitions" in kind:
            prefetch = MANY
        return self._step(
            "consume",
            queue=queue,
            consumer_tag=self._of(TAGS),
            no_ack=self._is(0.02 if reads else 0.25),
            exclusive=self._is(0.1),
            nowait=self._is(0.1),
            arguments=self._of(READ if reads else CONSUMED),
            prefetch=prefetch,
        )

    def _cancel(self) -> Step:
        return self._step("cancel", consumer_tag=self._of(TAGS), nowait=self._is(0.1))

    def _qos(self) -> Step:
        count = self._of((0, 1, 2, 3))
        return self._step("qos", count=count, of_all=self._is(0.5), size=int(self._is(0.02)))

    def _recover(self) -> Step:
        return self._step("recover")

    def _get(self) -> Step:
        return self._step("get", queue=self._queue(), no_ack=self._is(0.3))

    def _purge(self) -> Step:
        return self._step("purge", queue=self._queue())

    def _delete(self) -> Step:
        unless = {"if_unused": self._is(0.3), "if_empty": self._is(0.3)}
        return self._step("delete", queue=self._queue(), **unless)

    def _delete_exchange(self) -> Step:
        return self._step("delete_exchange", exchange=self._of(EXCHANGES), if_unused=self._is(0.3))

    def _tx(self) -> Step:
        ends = self._of(("commit", "commit", "commit", "rollback"))
        return self._step(self._mode() if self._is(0.2) else ends)

    def _mode(self) -> str:
        return "tx" if self._transacts else "confirm"

    def _confirm(self) -> Step:
        return self._step("confirm")

    def _close(self) -> Step:
        return self._step("close")

    def _leave(self) -> Step:
        return self._step(self._of(("leave", "leave", "drop")))


WEIGHTS = {
    "publish": 30,
    "settle": 16,
    "consume": 20,
    "get": 8,
    "declare": 6,
    "cancel": 5,
    "tx": 8,
    "close": 4,
    "qos": 4,
    "bind": 4,
    "recover": 3,
    "purge": 2,
    "delete": 2,
    "leave": 2,
    "declare_exchange": 1,
    "delete_exchange": 1,
    "confirm": 1,
}
