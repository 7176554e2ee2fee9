"""Quarantine: a log with damaged files delivers no record at or behind the damage, and otherwise works."""

import logging
from abc import ABC, abstractmethod

from routelog.log_backend.partitions.log_end import LogEnd
from routelog.log_backend.segments.damage import NOTHING_BLOCKED, Damage, DamageRecord
from routelog.log_backend.segments.segment import Segment, SegmentDamaged

log = logging.getLogger(__name__)


class QuarantinedLog(LogEnd, ABC):
    """A partition's log and the known damage of its files.

    Attributes:
        read_error: an error of the disk, or a bug, that blocks the log without damage; not stored.
    """

    __slots__ = ("_damage", "read_error")

    def _begin_undamaged(self) -> None:
        # None saves memory: nearly all logs have no damage
        self._damage: DamageRecord | None = None
        self.read_error: BaseException | None = None

    @property
    def damage(self) -> DamageRecord:
        """The known damage; set it from the metadata."""
        return DamageRecord() if self._damage is None else self._damage

    @damage.setter
    def damage(self, stored: DamageRecord) -> None:
        self._damage = stored if stored.found or stored.lost else None
        self.blocked_from = stored.blocked_from

    @property
    def is_damaged(self) -> bool:
        """Whether some records are not delivered."""
        return self.blocked_from != NOTHING_BLOCKED

    def quarantine(self, damage: Damage) -> None:
        """Deliver no record at or behind a damage, also after restarts.

        Records before it are delivered, and new ones are appended behind it, in a new segment.
        """
        record = self.damage
        if not record.add(damage):
            return
        self._damage = record
        log.error("quarantined: %s in %s: run 'routelog log verify'", damage, self.directory)
        self.blocked_from = min(self.blocked_from, record.blocked_from)
        self._damage_changed()
        self.lift_quarantine()

    def quarantine_segment(
        self, segment: Segment, error: SegmentDamaged, asked: int = NOTHING_BLOCKED
    ) -> None:
        """Quarantine the part of a segment that is damaged.

        Args:
            asked: the offset that was looked for: no batch lies between it and the damage.
        """
        end = segment.end_offset if error.end is None else error.end
        first = min(error.first, asked)
        segment.damaged = True
        self.quarantine(
            Damage(error.path.name, error.position, error.reason, first, max(end, first + 1))
        )

    def read_failed(self, offset: int, error: BaseException) -> None:
        """Deliver no record at or behind an offset until `read_again`."""
        log.error("offset %d of %s cannot be read: %s", offset, self.directory, error)
        self.read_error = error
        self.blocked_from = min(self.blocked_from, offset)

    def read_again(self) -> None:
        """Forget the read error, after those who waited were told of it: the next reader tries again."""
        if self.read_error is not None:
            self.read_error = None
            self.blocked_from = self.damage.blocked_from

    def lift_quarantine(self) -> None:
        """Forget damage of records that nobody needs any more: they are settled, or past retention."""
        found = self.damage.found
        if not (found or self.read_error):
            return
        needed_from = self._needed_from()
        if self.read_error is not None and self.blocked_from < needed_from:
            self.read_again()
        needed = [damage for damage in found if damage.end > needed_from]
        if len(needed) < len(found):
            log.warning("%s is past its damage, below offset %d", self.directory, needed_from)
            self.damage.found = needed
            self.blocked_from = self.damage.blocked_from
            self._damage_changed(lifted=True)

    @abstractmethod
    def _needed_from(self) -> int:
        """The lowest offset that somebody may still read."""

    @abstractmethod
    def _damage_changed(self, *, lifted: bool = False) -> None:
        """Store `damage`, and forget the pieces that were read before; see `LogOwner`."""
