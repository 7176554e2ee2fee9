"""The commit rule: committed is what every member of the in-sync set has on its disk."""

from collections.abc import Mapping

from routelog.mirror_cluster.protocol.shard_record import Member
from routelog.mirror_cluster.replica.in_sync_set import InSyncSet


def committed_position(
    in_sync: InSyncSet, durable: Mapping[Member, int], size_min: int
) -> int | None:
    """How far the journal is committed, judged by what is known at this moment.

    Args:
        durable: how far each member's journal is on its disk; missing members are not known.
        size_min: the in-sync set must have so many members.

    Returns:
        The position; None when nothing can be committed. It may be lower than one found before, as a member
        that opens a session again is not known until it has answered: committed stays what it was.
    """
    if len(in_sync.record.in_sync) < size_min:
        return None
    return min(durable.get(member, 0) for member in in_sync.counted)
