"""What clients were told, held against the logs of all nodes when they are stopped."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.brokers.queue_load import QUEUE, QueueLoad
from whole_digests import digest_differences

from routelog.log_backend import (
    DataDirectory,
    DigestEnd,
    JournalContent,
    Piece,
    SystemDisk,
    digest_pieces,
    open_metadata,
)
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.tools.log_dump import stored_records
from routelog.log_backend.tools.log_verification import check_journal
from routelog.vhosts import DeclaredPartitions, partition_names

# A hand-out that is not committed is forgotten when another node leads: around a fault that is no surprise.
LATE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """See the module.

    Attributes:
        lost: confirmed, and never delivered.
        missing: confirmed, and not in the log of some node.
        doubled: more than once in the log of some node.
        unmarked: delivered twice without a mark, and there was no fault when it was delivered first.
        late: the same, around a fault.
        differences: of nodes.
        digests: one number a node.
    """

    lost: list[int]
    missing: list[int]
    doubled: list[int]
    unmarked: list[int]
    late: list[int]
    differences: list[str]
    digests: dict[str, int]

    @classmethod
    def of(
        cls, load: QueueLoad, directories: Mapping[str, Path], faults: Sequence[float]
    ) -> "Verdict":
        """Judge a load that has been drained, and nodes that were idle and in sync when they ended.

        Args:
            faults: when something went wrong.
        """
        digests: dict[str, list[Piece]] = {}
        missing: set[int] = set()
        doubled: set[int] = set()
        for name, path in directories.items():
            with _opened(path) as data:
                records = DeclaredPartitions(data.metadata)
                digests[name] = list(digest_pieces(data, records, JournalContent(data)))
                times = Counter(_logged(data).values())
            missing |= load.confirmed - times.keys()
            doubled |= {number for number, count in times.items() if count > 1}
        twice = load.twice
        late = {
            number
            for number, at in twice.items()
            if any(abs(at - fault) < LATE_SECONDS for fault in faults)
        }
        return cls(
            sorted(load.lost),
            sorted(missing),
            sorted(doubled),
            sorted(twice.keys() - late),
            sorted(late),
            [each.told() for each in digest_differences(digests)],
            {
                name: each.checksum
                for name, pieces in digests.items()
                for each in pieces
                if isinstance(each, DigestEnd)
            },
        )

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        kinds = ("lost", "missing", "doubled", "unmarked")
        found = {kind: getattr(self, kind) for kind in kinds}
        told = [f"{kind}: {len(each)}, such as {each[:5]}" for kind, each in found.items() if each]
        return told + self.differences


@contextmanager
def _opened(path: Path) -> Iterator[DataDirectory]:
    disk = SystemDisk()
    with open_metadata(path, disk, read_only=True) as metadata:
        yield DataDirectory(path, disk, metadata, partition_names(metadata))


def _logged(data: DataDirectory) -> dict[int, int]:
    """The messages of the queue by offset, from segments and journal."""
    (partition,) = [each for each in data.partitions() if each.queue == QUEUE]
    found = {}
    for record in stored_records(data, partition, 0, with_bodies=True):
        assert record.body is not None
        found[record.offset] = int(bytes.fromhex(record.body))
    for check in check_journal(data):
        for _, block in check.blocks:
            for entry in block.entries:
                batch = entry.change
                if entry.partition == partition.number and isinstance(batch, RecordBatch):
                    for offset in range(batch.base_offset, batch.end_offset):
                        found[offset] = int(batch.records.body(offset - batch.base_offset))
    return found
