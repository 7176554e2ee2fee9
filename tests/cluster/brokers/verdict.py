"""What clients were told, held against the logs of all nodes when they are stopped."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cluster.brokers.lanes import Lane
from cluster.brokers.ledger import Ledger, number_in
from cluster.brokers.queue_load import QueueLoad
from support.whole_digests import digest_differences

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

# A hand-out that is not committed is forgotten when another node leads: around a fault that is no surprise. A
# lease, and what finding out takes.
LATE_SECONDS = 3.0

Log = dict[int, int]  # numbers by offset


@dataclass(frozen=True, slots=True)
class Verdict:
    """See the module. Each is the numbers of messages, in words with their lane.

    Attributes:
        lost: confirmed, and never delivered.
        missing: confirmed, and not in the log of some node.
        doubled: more than once in the log of some node.
        invented: in a log, and not published.
        halved: in one of the queues of a transaction only.
        disordered: before one in the log that was confirmed when it was not published yet.
        overtaken: delivered the first time behind one that stands behind it in the log, and no fault between.
        unmarked: delivered twice without a mark, and there was no fault when it was delivered first.
        late: the same, around a fault.
        wrong: what clients saw that can never be right.
        differences: of nodes.
        digests: one number a node.
    """

    lost: list[str]
    missing: list[str]
    doubled: list[str]
    invented: list[str]
    halved: list[str]
    disordered: list[str]
    overtaken: list[str]
    unmarked: list[str]
    late: list[str]
    wrong: list[str]
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
        ledger = load.ledger
        digests: dict[str, list[Piece]] = {}
        found = _Found(ledger, faults)
        for name, path in directories.items():
            with _opened(path) as data:
                records = DeclaredPartitions(data.metadata)
                digests[name] = list(digest_pieces(data, records, JournalContent(data)))
                logs = _logs(
                    data, {queue for lane in load.lanes for queue in (lane.home, *lane.along)}
                )
            for lane in load.lanes:
                found.look_at(lane, logs)
        late = {
            number
            for number, times in ledger.twice.items()
            if any(abs(times[0] - fault) < LATE_SECONDS for fault in faults)
        }
        words = found.words
        return cls(
            words(ledger.lost),
            words(found.missing),
            words(found.doubled),
            words(found.invented),
            words(found.halved),
            words(found.disordered),
            words(found.overtaken),
            words(ledger.twice.keys() - late),
            words(late),
            ledger.wrong,
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
        kinds = (
            "lost", "missing", "doubled", "invented", "halved", "disordered", "overtaken",
            "unmarked", "wrong",
        )  # fmt: skip
        found = {kind: getattr(self, kind) for kind in kinds}
        told = [f"{kind}: {len(each)}, such as {each[:5]}" for kind, each in found.items() if each]
        return told + self.differences


def missing_in_backup(load: QueueLoad, restored: Path, confirmed: Set[int]) -> None:
    """Tell the ledger what a restored data directory lacks of what was confirmed before the backup began.

    Only of lanes whose messages are at home from the beginning: others may have been on their way.
    """
    ledger = load.ledger
    direct = [lane for lane in load.lanes if next(iter(lane.queues)) == lane.home]
    with _opened(restored) as data:
        logs = _logs(data, {lane.home for lane in direct})
    for lane in direct:
        if lane.exchange is None:
            ours = {number for number in confirmed if ledger.told[number].lane is lane}
            if missing := ours - {*logs.get(lane.home, {}).values()}:
                ledger.wrong.append(f"backup: {len(missing)} of {lane.name} are not in it")


class _Found:
    """What is in the logs of the nodes."""

    def __init__(self, ledger: Ledger, faults: Sequence[float]) -> None:
        self._ledger = ledger
        self._faults = faults
        self.missing: set[int] = set()
        self.doubled: set[int] = set()
        self.invented: set[int] = set()
        self.halved: set[int] = set()
        self.disordered: set[int] = set()
        self.overtaken: set[int] = set()

    def look_at(self, lane: Lane, logs: Mapping[str, Log]) -> None:
        """The log of one node for a lane's home, and for what the same transaction went to."""
        told = self._ledger.told
        home = logs.get(lane.home, {})
        there = [home[offset] for offset in sorted(home)]
        left = self._ledger.leftover
        confirmed = {at for at, each in enumerate(told) if each.lane is lane and each.confirmed}
        self.missing |= confirmed - {*there} - left
        ours = [at for at in there if at < len(told) and told[at].lane is lane]
        self.invented |= {*there} - {*ours}
        self.doubled |= _twice(ours) | ({*ours} & left)
        if lane.is_ordered:
            self._look_at_order(ours)
        if lane.comes_in_order:
            self._look_at_deliveries(lane, home)
        for queue in lane.along:
            along = list(logs.get(queue, {}).values())
            self.halved |= {*along} ^ {*ours}
            self.doubled |= _twice(along)

    def _look_at_order(self, there: list[int]) -> None:
        told, latest = self._ledger.told, 0.0
        for number in there:
            each = told[number]
            if each.confirmed and each.confirmed < latest:
                self.disordered.add(number)
            latest = max(latest, each.published)

    def _look_at_deliveries(self, lane: Lane, home: Log) -> None:
        places = {number: offset for offset, number in home.items()}
        for hearing in self._ledger.hearings:
            if hearing.lane is not lane or hearing.queue != lane.home:
                continue
            # What is not there was delivered before it was confirmed, by a leader that was deposed.
            there = [each for each in hearing.firsts if each[0] in places]
            for (before, since), (after, until) in pairwise(there):
                # A connection outlives a leader: what that one had handed to others comes from the next one.
                is_late = any(since - LATE_SECONDS < fault < until for fault in self._faults)
                if places[after] < places[before] and not is_late:
                    self.overtaken.add(after)

    def words(self, numbers: set[int]) -> list[str]:
        """Each with its lane."""
        told = self._ledger.told
        return [
            f"{told[number].lane.name if number < len(told) else 'nobody'} {number}"
            for number in sorted(numbers)
        ]


def _twice(numbers: list[int]) -> set[int]:
    return {number for number, count in Counter(numbers).items() if count > 1}


@contextmanager
def _opened(path: Path) -> Iterator[DataDirectory]:
    disk = SystemDisk()
    with open_metadata(path, disk, read_only=True) as metadata:
        yield DataDirectory(path, disk, metadata, partition_names(metadata))


def _logs(data: DataDirectory, queues: Set[str]) -> Mapping[str, Log]:
    """The messages of queues by offset, from segments and journal."""
    found: defaultdict[str, Log] = defaultdict(dict)
    partitions = [each for each in data.partitions() if each.queue in queues]
    numbers = {each.number: each.queue for each in partitions}
    for partition in partitions:
        for record in stored_records(data, partition, 0, with_bodies=True):
            assert record.body is not None
            found[partition.queue][record.offset] = number_in(bytes.fromhex(record.body))
    for check in check_journal(data):
        for _, block in check.blocks:
            for entry in block.entries:
                batch = entry.change
                queue = numbers.get(entry.partition)
                if isinstance(batch, RecordBatch) and queue is not None:
                    for offset in range(batch.base_offset, batch.end_offset):
                        body = batch.records.body(offset - batch.base_offset)
                        found[queue][offset] = number_in(bytes(body))
    return found
