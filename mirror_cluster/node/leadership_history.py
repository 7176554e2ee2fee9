"""Who led a shard and why that changed, as this process has seen it at the coordinator."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

CHANGES_MAX = 100


@dataclass(frozen=True, slots=True)
class LeadershipChange:
    """A record that took the place of another one.

    Attributes:
        at: microseconds since 1970, by the clock of the node that proposed it.
        what: in words, and why as far as that can be told.
    """

    at: int
    epoch: int
    leader: str
    in_sync: tuple[str, ...]
    what: str


class LeadershipHistory:
    """The last changes of one shard's record. Some that follow each other fast may be seen as one.

    Attributes:
        changes: oldest first.
    """

    def __init__(self) -> None:
        self.changes: deque[LeadershipChange] = deque(maxlen=CHANGES_MAX)
        self._record: ShardRecord | None = None

    def on_view(self, record: ShardRecord | None, alive: Mapping[str, NodeEntry]) -> None:
        """Note what the coordinator holds.

        Args:
            alive: nodes by name.
        """
        before = self._record
        if record is None or (before is not None and record.revision == before.revision):
            return
        self._record = record
        told = (
            "as it was when this process began" if before is None else _told(before, record, alive)
        )
        in_sync = tuple(sorted(record.in_sync))
        self.changes.append(
            LeadershipChange(record.changed_at, record.epoch, record.leader, in_sync, told)
        )


def _told(before: ShardRecord, after: ShardRecord, alive: Mapping[str, NodeEntry]) -> str:
    told: list[str] = []
    if (after.epoch, after.leader, after.claim) != (before.epoch, before.leader, before.claim):
        told.append(_led(before, after, alive))
    told += [f"{name} has everything" for name in _beyond(after.in_sync, before.in_sync)]
    for name in _beyond(before.in_sync, after.in_sync):
        told.append(f"{name} {'does not keep up' if name in alive else 'is gone'}")
    told += [f"{name} is to have a copy" for name in _beyond(after.replicas, before.replicas)]
    told += [f"{name} is to have no copy" for name in _beyond(before.replicas, after.replicas)]
    return "; ".join(told) or "proposed again"


def _led(before: ShardRecord, after: ShardRecord, alive: Mapping[str, NodeEntry]) -> str:
    leader, former = after.leader, before.leader
    if after.unclean > before.unclean:
        return f"an operator had {leader} lead with what it has"
    if after.claim == 0:
        return f"{former} asks {leader} to lead"
    if before.claim == 0 and leader == former:
        return f"{leader} leads, as it was asked to"
    if leader == former:
        return f"{leader} leads again, after a start"
    if former not in alive:
        return f"{leader} leads, as {former} is gone" if former else f"{leader} leads first"
    if alive[former].process != before.claim:
        return f"{leader} leads, as {former} was started again"
    return f"{leader} leads in the place of {former}"


def _beyond(names: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted(set(names) - set(others))
