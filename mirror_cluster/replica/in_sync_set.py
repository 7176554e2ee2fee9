"""The in-sync set as its leader must count it, while changes of it are under way.

A proposal without an answer may be accepted, now or later, as long as the record has its revision. So a
member that a proposal adds counts from the proposal on, and one that a proposal removes counts until the
coordinator has said that it is removed.
"""

from collections.abc import Mapping

from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord


class InSyncSet:
    """The record that a leader knows, and what it has proposed since.

    Invariant: `counted` holds every member of the coordinator's in-sync set as long as this leader leads.
    """

    def __init__(self, record: ShardRecord) -> None:
        self.record = record
        self._proposed: list[frozenset[Member]] = []

    def propose(self, record: ShardRecord) -> None:
        """This becomes the record, perhaps."""
        # Without a coordinator it is proposed again and again
        if record.members not in self._proposed:
            self._proposed.append(record.members)

    def adopt(self, record: ShardRecord) -> None:
        """This is the record; what was proposed for an earlier revision cannot be accepted any more."""
        self.record = record
        self._proposed.clear()

    @property
    def counted(self) -> frozenset[Member]:
        """Whose disks a block must be on before it is committed."""
        return self.record.members.union(*self._proposed)

    def shrunk(self, late: list[str], size_min: int) -> ShardRecord | None:
        """The record without members that are late, the first in the list first.

        Returns:
            None when nobody can leave: the set keeps `size_min` members, each of which can still lead.
        """
        spare = len(self.record.in_sync) - size_min
        leaving = frozenset(late[: max(spare, 0)])
        return self.record.without(leaving) if leaving else None

    def committed_position(self, durable: Mapping[Member, int], size_min: int) -> int | None:
        """How far the journal is committed: every member has that on its disk, as far as is known.

        Args:
            durable: how far each member's journal is on its disk; missing members are not known.
            size_min: the in-sync set must have so many members.

        Returns:
            The position; None when nothing can be committed. It may be lower than one found before, as a
            member that opens a session again is not known until it has answered: committed stays what it was.
        """
        if len(self.record.in_sync) < size_min:
            return None
        return min(durable.get(member, 0) for member in self.counted)
