"""Quarantine: a log hands out nothing at or behind a damage of its files, and goes on otherwise."""

import logging
from abc import ABC, abstractmethod

from routelog.log_backend.partitions.log_end import LogEnd
from routelog.log_backend.segments.damage import NOTHING_BLOCKED, Damage, DamageRecord
from routelog.log_backend.segments.segment import Segment, SegmentDamaged

log = logging.getLogger(__name__)


class QuarantinedLog(LogEnd, ABC):
    """What a partition's log knows of its damage.

    Attributes:
        blocked_from: nothing at or behind this offset is handed out.
        read_error: why it cannot be read, where no damage is: the disk's fault, or ours. Not kept.
    """

    __slots__ = ("_damage", "blocked_from", "read_error")

    def _begin_undamaged(self) -> None:
        self._damage: DamageRecord | None = None  # nothing is known: nearly always
        self.blocked_from = NOTHING_BLOCKED
        self.read_error: BaseException | None = None

    @property
    def damage(self) -> DamageRecord:
        """What is known of damaged files; set it to what is stored."""
        return DamageRecord() if self._damage is None else self._damage

    @damage.setter
    def damage(self, stored: DamageRecord) -> None:
        self._damage = stored if stored.found or stored.lost else None
        self.blocked_from = stored.blocked_from

    @property
    def is_damaged(self) -> bool:
        """Something is not handed out."""
        return self.blocked_from != NOTHING_BLOCKED

    def quarantine(self, damage: Damage) -> None:
        """Hand out nothing at or behind a damage, from now on and over restarts.

        What lies before is served, and appends go on: behind it, in a new segment.
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
        """Quarantine what a segment holds from a damage on.

        Args:
            asked: the offset that led there: no batch lies between it and the damage.
        """
        end = segment.end_offset if error.end is None else error.end
        first = min(error.first, asked)
        segment.damaged = True
        self.quarantine(
            Damage(error.path.name, error.position, error.reason, first, max(end, first + 1))
        )

    def read_failed(self, offset: int, error: BaseException) -> None:
        """Hand out nothing at or behind an offset until `read_again`."""
        log.error("offset %d of %s cannot be read: %s", offset, self.directory, error)
        self.read_error = error
        self.blocked_from = min(self.blocked_from, offset)

    def read_again(self) -> None:
        """Whoever waited for what cannot be read was told: the next one who asks has it read again."""
        self.read_error = None
        self.blocked_from = self.damage.blocked_from

    def lift_quarantine(self) -> None:
        """Forget damage of what nobody will ask for any more: it is settled, or not kept."""
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
            self._damage_changed()

    @abstractmethod
    def _needed_from(self) -> int:
        """Nobody will ask for an offset below."""

    @abstractmethod
    def _damage_changed(self) -> None:
        """Keep `damage`, and nothing that was read before."""
