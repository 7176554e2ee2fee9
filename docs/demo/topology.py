"""Exchanges, queues and bindings of the audit stream, and the plainest rule of who gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel, AbstractExchange
from pamqp.common import Arguments

AUDIT = "audit"  # topic: every event is published here, the event's name is the routing key
FANOUT = "audit.fanout"  # bound to AUDIT
DIRECT = "audit.direct"  # bound to AUDIT
ALL_QUEUE = "audit.all"
MONITOR_QUEUE = "audit.monitor"


@dataclass(frozen=True)
class AuditQueue:
    """A queue and the events it gets."""

    name: str
    pattern: str
    through: str | None = None  # an exchange between AUDIT and the queue
    retention: str | None = None


AUDIT_QUEUES = (
    AuditQueue(ALL_QUEUE, "#", retention="7d"),
    AuditQueue("audit.open", "open"),
    AuditQueue("audit.sockets", "socket.*"),
    AuditQueue("audit.os", "os.*"),
    AuditQueue("audit.spawned", "subprocess.Popen", through=DIRECT),
    AuditQueue(MONITOR_QUEUE, "#", through=FANOUT),
)
RESTING_QUEUES = tuple(queue.name for queue in AUDIT_QUEUES if queue.name != MONITOR_QUEUE)


async def declare_audit_topology(channel: AbstractChannel) -> None:
    """Declare all exchanges, queues and bindings; all are durable."""
    audit = await channel.declare_exchange(AUDIT, ExchangeType.TOPIC, durable=True)
    sources: dict[str | None, AbstractExchange] = {None: audit}
    for name, kind in ((FANOUT, ExchangeType.FANOUT), (DIRECT, ExchangeType.DIRECT)):
        sources[name] = await channel.declare_exchange(name, kind, durable=True)
    for wanted in AUDIT_QUEUES:
        arguments: Arguments = {"x-retention": wanted.retention} if wanted.retention else None
        queue = await channel.declare_queue(wanted.name, durable=True, arguments=arguments)
        source = sources[wanted.through]
        if source is not audit:
            await source.bind(audit, routing_key=wanted.pattern)
        await queue.bind(source, routing_key=wanted.pattern)


async def ready_count(channel: AbstractChannel, queue: str) -> int:
    """How many messages wait in a queue, as a passive declare tells it."""
    answer = await channel.declare_queue(queue, passive=True)
    return answer.declaration_result.message_count or 0


async def ready_counts(channel: AbstractChannel, queues: Iterable[str]) -> dict[str, int]:
    """The same for several queues."""
    return {queue: await ready_count(channel, queue) for queue in queues}


def expected_counts(events: Mapping[str, int]) -> dict[str, int]:
    """How many messages each audit queue has to get.

    Args:
        events: how often each routing key was published.
    """
    return {
        queue.name: sum(n for key, n in events.items() if matches(queue.pattern, key))
        for queue in AUDIT_QUEUES
    }


def matches(pattern: str, key: str) -> bool:
    """AMQP's topic rule, word by word: `*` is one word, `#` is any number of them."""
    return _words_match(pattern.split("."), key.split("."))


def _words_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(_words_match(rest, words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and head in ("*", words[0]) and _words_match(rest, words[1:])
