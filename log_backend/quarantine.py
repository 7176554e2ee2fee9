"""Quarantine: a log hands out nothing at or behind a damage of its files, and goes on otherwise."""

import logging
from abc import ABC, abstractmethod
from pathlib import Path

from log_backend.damage import NOTHING_BLOCKED, Damage, DamageRecord
from log_backend.segment import Segment, SegmentDamaged

log = logging.getLogger(__name__)


class QuarantinedLog(ABC):
    """What a partition's log knows of its damage.

    Attributes:
        damage: what is known of damaged files.
        blocked_from: nothing at or behind this offset is handed out.
        read_error: why it cannot be read, where no damage is: the disk's fault, or ours. Not kept.
    """

    def __init__(self) -> None:
        self.damage = DamageRecord()
        self.blocked_from = self.damage.blocked_from
        self.read_error: BaseException | None = None

    @property
    @abstractmethod
    def directory(self) -> Path:
        """Where its segments lie."""

    @property
    def is_damaged(self) -> bool:
        """Something is not handed out."""
        return self.blocked_from != NOTHING_BLOCKED

    def quarantine(self, damage: Damage) -> None:
        """Hand out nothing at or behind a damage, from now on and over restarts.

        What lies before is served, and appends go on: behind it, in a new segment.
        """
        if not self.damage.add(damage):
            return
        log.error("quarantined: %s in %s: run 'routelog log verify'", damage, self.directory)
        self.blocked_from = min(self.blocked_from, self.damage.blocked_from)
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
