"""What the topology's records say of a partition, to whoever opens partitions without the topology."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from routelog.log_backend.segments.retention import Retention


@dataclass(frozen=True, slots=True)
class DeclaredPartition:
    """A durable partition as the metadata store has it: see `LogStore.open_partition`."""

    number: int
    vhost: str
    queue: str
    index: int
    retention: Retention | None = None
    compression: str | None = None
    cursors: Mapping[int, int] = field(default_factory=dict)


class PartitionRecords(Protocol):
    """Reads the records of a metadata store; which keys they have, the topology knows."""

    def all(self) -> Iterable[DeclaredPartition]:
        """Every partition."""

    def of(self, keys: Iterable[bytes]) -> Iterable[DeclaredPartition]:
        """The partitions that a change of some keys is about, as the store has them."""
