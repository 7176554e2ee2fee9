"""All virtual hosts of a node, and the numbers of their partitions."""

import msgspec

from exchanges import check_name
from log_backend import Change, Durability, LogStore, MetadataStore
from vhosts.errors import VhostNotFound
from vhosts.timer import CallLater, CallSoon
from vhosts.topology_record import NEXT_PARTITION_KEY, VHOSTS_PREFIX, VhostRecord, vhost_change
from vhosts.topology_writer import TopologyWriter
from vhosts.vhost import VirtualHost


class VhostDirectory:
    """The vhosts by name."""

    def __init__(
        self,
        logs: LogStore,
        writer: TopologyWriter,
        call_soon: CallSoon,
        call_later: CallLater,
        *,
        default_durability: Durability = Durability.DISK,
    ) -> None:
        self._logs = logs
        self._writer = writer
        self._call_soon = call_soon
        self._call_later = call_later
        self._default_durability = default_durability
        self._next_partition = 1
        self._vhosts: dict[str, VirtualHost] = {}

    def load(self, store: MetadataStore) -> None:
        """Open everything that the store knows; call it before the log store recovers."""
        stored = store.get(NEXT_PARTITION_KEY)
        if stored is not None:
            self._next_partition = int(stored.value)
        for _, entry in store.scan(VHOSTS_PREFIX):
            record = msgspec.json.decode(entry.value, type=VhostRecord)
            self._open(record.name).load(store)

    def recovered(self) -> None:
        """The log store has recovered."""
        for vhost in self._vhosts.values():
            vhost.recovered()

    def get(self, name: str) -> VirtualHost:
        """A vhost.

        Raises:
            VhostNotFound: there is none of this name.
        """
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise VhostNotFound(name)
        return vhost

    def all(self) -> list[VirtualHost]:
        """All vhosts there are."""
        return list(self._vhosts.values())

    async def add(self, name: str) -> VirtualHost:
        """A vhost of this name, made when there is none; durable when this returns.

        Raises:
            InvalidName: the name breaks the rules of names.
        """
        if name in self._vhosts:
            return self._vhosts[name]
        check_name("vhost", name)
        durable = self._writer.submit([vhost_change(name)])
        vhost = self._open(name)
        await durable
        return vhost

    def take(self, count: int) -> tuple[list[int], Change]:
        """Partition numbers, and the change that keeps them from being given again."""
        first = self._next_partition
        self._next_partition += count
        numbers = list(range(first, self._next_partition))
        return numbers, Change(NEXT_PARTITION_KEY, b"%d" % self._next_partition)

    def _open(self, name: str) -> VirtualHost:
        vhost = VirtualHost(
            name,
            self._logs,
            self._writer,
            self,
            self._call_soon,
            self._call_later,
            default_durability=self._default_durability,
        )
        self._vhosts[name] = vhost
        return vhost
