"""What the topology tells a store that follows: which partitions there are, and who keeps definitions up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.segments.retention import Retention


@dataclass(frozen=True, slots=True)
class DeclaredPartition:
    """A durable partition as the metadata store has it: see `LogStore.open_partition`.

    Attributes:
        journaled: its persistent records are in the journal; not if it was declared to keep them in memory.
    """

    number: int
    vhost: str
    queue: str
    index: int
    retention: Retention | None = None
    compression: str | None = None
    cursors: Mapping[int, int] = field(default_factory=dict)
    journaled: bool = True


class PartitionRecords(Protocol):
    """Reads the records of a metadata store; which keys they have, the topology knows."""

    def all(self) -> Iterable[DeclaredPartition]:
        """Every partition."""

    def of(self, keys: Iterable[bytes]) -> Iterable[DeclaredPartition]:
        """The partitions that a change of some keys is about, as the store has them."""


class FollowedDefinitions(Protocol):
    """Definitions in memory, at a node that follows."""

    async def load(self) -> None:
        """Read what the store has."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Carry out committed changes of metadata, in their order; the store does not have them yet."""
