"""Records of damage in a partition's files, which are kept over restarts.

A damaged partition is quarantined: no record at or behind the damage is delivered until `routelog log repair`
has settled the lost offsets. In the metadata store, JSON::

    b"damage/" partition u64, big-endian -> {"found": [{"file": ..., "position": ..., "reason": ...,
                                             "first": ..., "end": ...}, ...],
                                             "lost": [[first, end], ...]}

`lost` has the offsets that a repair gave up: recovery settles them for all cursors.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

import msgspec

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.metadata.read_ahead import StoredEntries

NOTHING_BLOCKED = 1 << 64  # above every offset
EVERYTHING_BEHIND = (1 << 63) - 1  # the end of damage that affects all offsets from its first on

DAMAGE_PREFIX = b"damage/"


class Damage(msgspec.Struct, frozen=True):
    """One place of a partition's files that cannot be read.

    Attributes:
        file: its name within the partition's directory.
        position: of the first damaged byte.
        first: no record at or behind this offset is delivered.
        end: records from this offset on may be undamaged.
    """

    file: str
    position: int
    reason: str
    first: int
    end: int

    def __str__(self) -> str:
        where = f"{self.file} is damaged at byte {self.position}: {self.reason}"
        if self.end == EVERYTHING_BEHIND:
            return f"{where}; offsets from {self.first} on are concerned"
        return f"{where}; offsets {self.first} to {self.end - 1} are concerned"


class DamageRecord(msgspec.Struct):
    """All damage of a partition.

    Attributes:
        found: damage that is not repaired, ascending by offset.
        lost: offsets [first, end) that a repair gave up, ascending.
    """

    found: list[Damage] = msgspec.field(default_factory=list)
    lost: list[tuple[int, int]] = msgspec.field(default_factory=list)

    def add(self, damage: Damage) -> bool:
        """Add damage; returns False if it was known."""
        place = (damage.file, damage.position)
        known = [each for each in self.found if (each.file, each.position) == place]
        if known and known[0].first <= damage.first:
            return False
        self.found = [each for each in self.found if each not in known]
        self.found.append(damage)
        self.found.sort(key=lambda each: each.first)
        return True

    @property
    def blocked_from(self) -> int:
        """No record at or behind this offset is delivered."""
        return self.found[0].first if self.found else NOTHING_BLOCKED

    def still_promised(self, offset: int) -> int:
        """The offset below which records must exist, given that all below `offset` existed before repairs."""
        for first, end in reversed(self.lost):
            if first < offset <= end:
                offset = first
        return offset


def damage_key(partition: int) -> bytes:
    """Key of a partition's record."""
    return DAMAGE_PREFIX + struct.pack(">Q", partition)


def damage_change(partition: int, record: DamageRecord | None) -> Change:
    """Store the record, or delete it."""
    empty = record is None or not (record.found or record.lost)
    return Change(damage_key(partition), None if empty else msgspec.json.encode(record))


def load_damage(metadata: StoredEntries, partition: int) -> DamageRecord:
    """Return the damage record of a partition; an empty one if there is none."""
    entry = metadata.get(damage_key(partition))
    return DamageRecord() if entry is None else msgspec.json.decode(entry.value, type=DamageRecord)


def merged_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort ranges, and join those that touch or overlap."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found


def without_ranges(
    ranges: Sequence[tuple[int, int]], taken: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Subtract ranges from ranges; each list is ascending, and its ranges do not touch."""
    found: list[tuple[int, int]] = []
    for first, end in ranges:
        for at in range(bisect_right(taken, first, key=itemgetter(1)), len(taken)):
            taken_first, taken_end = taken[at]
            if taken_first >= end:
                break
            if first < taken_first:
                found.append((first, taken_first))
            first = max(first, taken_end)
        if first < end:
            found.append((first, end))
    return found
