"""How vhosts, exchanges, queues and bindings are kept in the metadata store::

    key                                                              value, JSON
    vhosts/<vhost>                                                   {"version":1,"name":...,"limits":{...}}
    exchanges/<vhost>/<exchange>                                     {"version":1,"name":...,"type":...}
    queues/<vhost>/<queue>                                           {"version":1,"name":...,"partitions":[n]}
    delays/<vhost>/<exchange>                                        {"version":1,"partitions":[n],...}
    bindings/<vhost>/<source>/<kind>/<destination>/<key>/<arguments> {"version":1,...}
    next-partition                                                   the next partition number, decimal

In a cluster, exchanges, queues and bindings that are not durable have records, too: other nodes route by them.
Their keys begin with `transient-`, their partitions are the leader's alone, and the next leader deletes them.
On a node on its own they have none.

`user` of exchanges, queues and bindings is who made them; it is not there when the broker did.

Names in keys are percent-encoded, and names are read from the values. Arguments are stored as an AMQP
field table (argument_table.py), because JSON does not know its types.

Consumer groups::

    key                              value, JSON
    groups/<vhost>/<queue>/<group>   {"version":1,"queue":...,"name":...,"cursor":n,"begins":[n],"expires":us,
                                      "hold_bytes":n,"filter":{...}}
    next-cursors/<vhost>/<queue>     {"version":1,"queue":...,"cursor":n}

`begins` has an offset for each partition: the group has no use for records below. `filter` has the arguments
that its consumers give for one, see `filter_arguments`; null: it has none. The cursor number of
the queue's next group is stored, because none is given twice: the journal may still hold what a
deleted group has settled.
"""

import hashlib
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Change
from routelog.vhosts.arguments.argument_table import decode_arguments, encode_arguments
from routelog.vhosts.arguments.queue_properties import QueueProperties

VHOSTS_PREFIX = b"vhosts/"
NEXT_PARTITION_KEY = b"next-partition"
TRANSIENT_PREFIX = b"transient-"
# Names that come again, as those of what has many bindings: encoding one takes 3 us.
QUOTED_MAX = 512


class VhostRecord(msgspec.Struct, frozen=True):
    """A virtual host as stored: its name, and what an operator said of it."""

    name: str
    description: str = ""
    tags: list[str] = []
    default_queue_type: str | None = None
    limits: dict[str, int] = {}
    version: Literal[1] = 1


class ExchangeRecord(msgspec.Struct, frozen=True):
    """An exchange as stored, with the number of the partition that it remembers in; 0: it has none."""

    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes
    partition: int = 0
    user: str = ""
    version: Literal[1] = 1

    def exchange(self, *, durable: bool) -> Exchange:
        """The exchange of this record."""
        return Exchange(
            self.name,
            self.type,
            durable,
            self.auto_delete,
            self.internal,
            decode_arguments(self.arguments),
            intern(self.user),
        )


class QueueRecord(msgspec.Struct, frozen=True):
    """A durable queue as stored, with the numbers of its partitions."""

    name: str
    auto_delete: bool
    arguments: bytes
    partitions: list[int]
    user: str = ""
    paused: bool = False
    version: Literal[1] = 1

    def properties(self) -> QueueProperties:
        """What the queue was declared with."""
        return QueueProperties(
            self.name,
            durable=True,
            auto_delete=self.auto_delete,
            arguments=decode_arguments(self.arguments),
            user=intern(self.user),
        )


class TransientQueueRecord(QueueRecord, frozen=True):
    """A queue that is not durable, or exclusive, as other nodes of a cluster know it.

    Attributes:
        owner: which connection an exclusive queue belongs to; empty: one of the leader's own.
    """

    exclusive: bool = False
    owner: str = ""

    def properties(self) -> QueueProperties:
        """See `QueueRecord`."""
        declared = QueueRecord.properties(self)
        return replace(declared, durable=False, exclusive=self.exclusive)


class DelayRecord(msgspec.Struct, frozen=True):
    """Where a durable delayed message exchange holds its messages: the numbers of its partitions."""

    exchange: str
    partitions: list[int]
    version: Literal[1] = 1


class BindingRecord(msgspec.Struct, frozen=True):
    """A binding as stored."""

    source: str
    destination: str
    destination_kind: Literal["queue", "exchange"]
    routing_key: str
    arguments: bytes
    user: str = ""
    version: Literal[1] = 1

    def binding(self, *, durable: bool) -> Binding:
        """The binding of this record."""
        return Binding(
            self.source,
            self.destination,
            self.destination_kind,
            self.routing_key,
            decode_arguments(self.arguments),
            durable,
            intern(self.user),
        )


def vhost_change(vhost: VhostRecord, *, deleted: bool = False) -> Change:
    """Write or delete the vhost."""
    value = None if deleted else msgspec.json.encode(vhost)
    return Change(record_key("vhosts", vhost.name), value)


def exchange_change(
    vhost: str, exchange: Exchange, partition: int = 0, *, deleted: bool = False
) -> Change:
    """Write or delete the exchange."""
    record = ExchangeRecord(
        exchange.name,
        exchange.type,
        exchange.auto_delete,
        exchange.internal,
        encode_arguments(exchange.arguments),
        partition,
        exchange.user,
    )
    value = None if deleted else msgspec.json.encode(record)
    return Change(record_key(_kind("exchanges", exchange.durable), vhost, exchange.name), value)


def queue_change(
    vhost: str,
    queue: QueueProperties,
    partitions: list[int],
    *,
    paused: bool = False,
    owner: str = "",
    deleted: bool = False,
) -> Change:
    """Write or delete the queue.

    Args:
        owner: see `TransientQueueRecord`.
    """
    key = record_key(_kind("queues", queue.is_stored), vhost, queue.name)
    if deleted:
        return Change(key, None)
    arguments = encode_arguments(queue.arguments)
    values = queue.name, queue.auto_delete, arguments, partitions, queue.user, paused
    record = QueueRecord(*values)
    if not queue.is_stored:
        record = TransientQueueRecord(*values, exclusive=queue.exclusive, owner=owner)
    return Change(key, msgspec.json.encode(record))


def delay_change(
    vhost: str, exchange: str, partitions: list[int], *, deleted: bool = False
) -> Change:
    """Write or delete where an exchange holds its messages."""
    record = DelayRecord(exchange, partitions)
    value = None if deleted else msgspec.json.encode(record)
    return Change(record_key("delays", vhost, exchange), value)


def binding_change(vhost: str, binding: Binding, *, deleted: bool = False) -> Change:
    """Write or delete the binding."""
    arguments = encode_arguments(binding.arguments)
    ends = binding.source, binding.destination_kind, binding.destination
    digest = hashlib.sha256(arguments).hexdigest()[:32]
    kind = _kind("bindings", binding.durable)
    key = record_key(kind, vhost, *ends, binding.routing_key, digest)
    if deleted:
        return Change(key, None)
    record = BindingRecord(
        binding.source,
        binding.destination,
        binding.destination_kind,
        binding.routing_key,
        arguments,
        binding.user,
    )
    return Change(key, msgspec.json.encode(record))


def prefix(kind: str, vhost: str) -> bytes:
    """Prefix of the keys of a vhost's exchanges, queues or bindings."""
    return record_key(kind, vhost) + b"/"


def record_key(*parts: str) -> bytes:
    """Key of a record: its kind and names, each percent-encoded."""
    return "/".join(map(_quoted, parts)).encode()


def _kind(kind: str, durable: bool) -> str:
    return kind if durable else f"transient-{kind}"


@lru_cache(QUOTED_MAX)
def _quoted(name: str) -> str:
    return quote(name, safe="")


class GroupRecord(msgspec.Struct, frozen=True):
    """A consumer group of a stored queue, with the number of its cursor in every partition."""

    queue: str
    name: str
    cursor: int
    begins: list[int]
    expires: int | None
    hold_bytes: int | None = None
    filter: dict[str, Any] | None = None
    version: Literal[1] = 1


class NextCursorRecord(msgspec.Struct, frozen=True):
    """The cursor number that the next group of a queue gets."""

    queue: str
    cursor: int
    version: Literal[1] = 1


def group_change(vhost: str, record: GroupRecord, *, deleted: bool = False) -> Change:
    """Write or delete the group."""
    key = record_key("groups", vhost, record.queue, record.name)
    return Change(key, None if deleted else msgspec.json.encode(record))


def next_cursor_change(vhost: str, queue: str, cursor: int | None) -> Change:
    """Write the number that the queue's next group gets; None: the queue is deleted."""
    key = record_key("next-cursors", vhost, queue)
    if cursor is None:
        return Change(key, None)
    return Change(key, msgspec.json.encode(NextCursorRecord(queue, cursor)))
