"""Which partitions the topology has, read from the records of queues, exchanges and consumer groups."""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

import msgspec

from routelog.log_backend import EXCHANGE_MARK, DeclaredPartition, Durability, MetadataStore
from routelog.vhosts.arguments.queue_arguments import compression, durability, retention
from routelog.vhosts.stored.topology_record import (
    DelayRecord,
    ExchangeRecord,
    GroupRecord,
    QueueRecord,
)

KINDS = (b"queues", b"exchanges", b"delays")


class DeclaredPartitions:
    """Reads them from a metadata store; see `PartitionRecords`.

    For an exchange's, EXCHANGE_MARK stands before the name.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def all(self) -> Iterator[DeclaredPartition]:
        """Every partition."""
        for kind in KINDS:
            for key, entry in self._store.scan(kind + b"/"):
                yield from self._read(key, entry.value)

    def of(self, keys: Iterable[bytes]) -> Iterator[DeclaredPartition]:
        """The partitions that a change of some keys is about; a group's are those of its queue."""
        for key in dict.fromkeys(map(_owner, keys)):
            entry = self._store.get(key) if key.startswith(KINDS) else None
            if entry is not None:
                yield from self._read(key, entry.value)

    def _read(self, key: bytes, value: bytes) -> Iterator[DeclaredPartition]:
        kind, vhost = key.split(b"/")[:2]
        vhost_name = unquote(vhost.decode())
        if kind == b"queues":
            yield from self._queue(key, vhost_name, value)
        elif kind == b"delays":
            delay = msgspec.json.decode(value, type=DelayRecord)
            for part, number in enumerate(delay.partitions):
                yield DeclaredPartition(number, vhost_name, EXCHANGE_MARK + delay.exchange, part)
        else:
            exchange = msgspec.json.decode(value, type=ExchangeRecord)
            if exchange.partition:
                name = EXCHANGE_MARK + exchange.name
                yield DeclaredPartition(exchange.partition, vhost_name, name, 0)

    def _queue(self, key: bytes, vhost: str, value: bytes) -> Iterator[DeclaredPartition]:
        record = msgspec.json.decode(value, type=QueueRecord)
        arguments = record.properties().arguments
        kept = retention(arguments)
        groups: list[GroupRecord] = []
        if kept is not None:  # only then it has groups
            prefix = key.replace(b"queues/", b"groups/", 1) + b"/"
            entries = self._store.scan(prefix)
            groups = [msgspec.json.decode(each.value, type=GroupRecord) for _, each in entries]
        for index, number in enumerate(record.partitions):
            cursors: Mapping[int, int] = {each.cursor: each.begins[index] for each in groups}
            packed = compression(arguments)
            is_journaled = durability(arguments, Durability.DISK) is not Durability.MEMORY
            yield DeclaredPartition(
                number, vhost, record.name, index, kept, packed, cursors, is_journaled
            )


def partition_names(store: MetadataStore) -> dict[int, tuple[str, str, int]]:
    """Vhost, queue and index of every stored partition, by its number."""
    return {
        each.number: (each.vhost, each.queue, each.index)
        for each in DeclaredPartitions(store).all()
    }


def _owner(key: bytes) -> bytes:
    # The record that a partition's number is in.
    kind, *names = key.split(b"/")
    return b"/".join((b"queues", *names[:2])) if kind == b"groups" else key
