"""What is wrong with the broker, and what somebody should look at, in words."""

import heapq
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call
from routelog.management.calls.caller import Need
from routelog.management.calls.listing import SLICE_ITEMS, slices
from routelog.management.calls.operation import answers
from routelog.management.views.bindings import bindings_from
from routelog.vhosts import Queue, VirtualHost

OF_A_KIND_MAX = 20  # the largest of them; the answer says how many there are
CERTIFICATE_DAYS = 30

_WRONG, _LOOK = "wrong", "look"


class Finding(msgspec.Struct):
    """Something that is wrong, or that somebody should look at."""

    severity: str
    kind: str
    text: str
    node: str | msgspec.UnsetType = msgspec.UNSET
    vhost: str | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET
    messages: int | msgspec.UnsetType = msgspec.UNSET


class Findings(msgspec.Struct):
    """What was found, the worst first, in so many queues."""

    findings: list[Finding]
    queues: int


@answers(Findings)
async def list_findings(call: Call) -> Answer:
    """What is wrong, or worth a look, in the node and in the vhosts that the caller sees; the worst first."""
    found = [*_of_node(call), *_certificates(call), *_replicas(call)]
    vhosts = call.seen_vhosts()
    found += await _of_queues(vhosts)
    found.sort(key=lambda row: row.severity != _WRONG)
    return Value(Findings(found, sum(len(vhost.queues) for vhost in vhosts)))


def _of_node(call: Call) -> Iterator[Finding]:
    failure = call.broker.log_failure()
    if failure:
        text = (
            f"The log has failed: {failure}. Nothing is stored until the broker is started again."
        )
        yield Finding(_WRONG, "log", text)
    for alarm in call.broker.alarms():
        yield Finding(_WRONG, "alarm", f"Publishers wait: {alarm}.")


def _certificates(call: Call) -> Iterator[Finding]:
    now = datetime.fromtimestamp(call.broker.clock.now() / 1_000_000, UTC)
    for protocol, expiries in call.broker.expiries().items():
        for file, expiry in expiries.items():
            left = expiry - now
            if left < timedelta(days=CERTIFICATE_DAYS):
                is_over = left <= timedelta(0)
                verb = "expired" if is_over else "expires"
                text = f"The certificate {file} of {protocol} {verb} on {expiry:%Y-%m-%d}."
                yield Finding(_WRONG if is_over else _LOOK, "certificate", text)


def _replicas(call: Call) -> Iterator[Finding]:
    for replica in call.broker.cluster.replicas():
        if not replica.is_running:
            yield Finding(
                _WRONG, "replica", f"Node {replica.name} does not run.", node=replica.name
            )
        elif not replica.is_in_sync:
            text = f"Node {replica.name} does not have all that was confirmed."
            yield Finding(_WRONG, "replica", text, node=replica.name)
        if replica.is_damaged:
            text = (
                f"Node {replica.name} has damaged queues: it takes a copy of a node that is whole."
            )
            yield Finding(_WRONG, "replica", text, node=replica.name)
    if call.caller.has(Need.MONITORING):
        for standby in call.broker.cluster.standbys():
            if not standby["is_connected"]:
                name = standby["name"]
                yield Finding(_LOOK, "standby", f"Standby {name} is not connected.", node=name)


class _Largest:
    """The queues of a kind: how many there are, and those with most messages."""

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[tuple[int, str, str]] = []

    def add(self, queue: Queue) -> None:
        """Count a queue."""
        self.count += 1
        entry = (queue.ready, queue.vhost, queue.name)
        if len(self._heap) < OF_A_KIND_MAX:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def rows(self, severity: str, kind: str, text: str) -> Iterator[Finding]:
        """What there is to say of them."""
        for messages, vhost, name in sorted(self._heap, reverse=True):
            told = text.format(f"Queue {name}", messages)
            yield Finding(severity, kind, told, vhost=vhost, queue=name, messages=messages)
        if self.count > len(self._heap):
            others = self.count - len(self._heap)
            yield Finding(severity, kind, f"The same goes for {others:,} more queues.")


async def _of_queues(vhosts: list[VirtualHost]) -> list[Finding]:
    damaged, dead, forsaken = _Largest(), _Largest(), _Largest()
    waiting: list[Queue] = []
    letters: set[tuple[str, str]] = set()
    for vhost in vhosts:
        addresses: set[tuple[str, str | None]] = set()
        async for some in in_turns(slices(vhost.queues.values(), SLICE_ITEMS), Lane.OPERATORS):
            for queue in some:
                for partition in queue.partitions:
                    if partition.log.is_damaged:
                        damaged.add(queue)
                        break
                if queue.ready and not queue.is_stream and not queue.consumer_count:
                    waiting.append(queue)
                arguments = queue.effective.values
                exchange = arguments.get("x-dead-letter-exchange")
                if exchange is not None:
                    key = arguments.get("x-dead-letter-routing-key")
                    addresses.add((str(exchange), None if key is None else str(key)))
        async for name in in_turns(_letter_queues(vhost, addresses), Lane.OPERATORS):
            letters.add((vhost.name, name))
    async for queue in in_turns(waiting, Lane.OPERATORS):
        (dead if (queue.vhost, queue.name) in letters else forsaken).add(queue)
    return [
        *damaged.rows(_WRONG, "quarantine", "{} is damaged on the disk: a part is not delivered."),
        *dead.rows(_LOOK, "dead letters", "{} holds dead letters: {:,}."),
        *forsaken.rows(_LOOK, "backlog", "{} has no consumer, and messages: {:,}."),
    ]


def _letter_queues(
    vhost: VirtualHost, addresses: Iterable[tuple[str, str | None]]
) -> Iterator[str]:
    for exchange, key in addresses:
        if exchange:
            for binding in bindings_from(vhost, exchange):
                if binding.destination_kind == "queue":
                    yield binding.destination
        elif key is not None:  # else each letter would go back to where it died
            yield key
