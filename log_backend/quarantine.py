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
        directory: where its segments lie.
        damage: what is known of damaged files.
        blocked_from: quarantine: nothing at or behind this offset is handed out.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.damage = DamageRecord()
        self.blocked_from = self.damage.blocked_from

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

    def lift_quarantine(self) -> None:
        """Forget damage of what nobody will ask for any more: it is settled, or not kept."""
        found = self.damage.found
        if not found:
            return
        needed_from = self._needed_from()
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
