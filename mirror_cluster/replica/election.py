"""Who may claim the next epoch, and when. That only one of them gets it is the coordinator's matter."""

from collections.abc import Mapping

from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica.in_sync_set import InSyncSet


def can_lead(record: ShardRecord, member: Member) -> bool:
    """Whether a member has everything that is committed: it is in the in-sync set, with the disk it had."""
    return member in record.members


def rank(
    record: ShardRecord,
    member: Member,
    alive: Mapping[str, int],
    damaged: frozenset[str] = frozenset(),
) -> int | None:
    """How many candidates go first; None when there is nothing to claim.

    Who cannot read all that it has waits for a member that can, also for one that does not run: its leadership
    would take queues away that the other one has.

    Args:
        alive: nodes that are known to run, the member's own among them, each with its process.
        damaged: nodes that are known to be damaged, the member's own among them if it is.
    """
    if not can_lead(record, member) or alive.get(record.leader) == record.claim:
        return None
    fit = record.in_sync - damaged or record.in_sync
    candidates = [node for node in record.replicas if node in fit and node in alive]
    if record.claim == 0 and record.leader in candidates:  # the one that was asked to
        candidates.remove(record.leader)
        candidates.insert(0, record.leader)
    return candidates.index(member.node) if member.node in candidates else None


def claimed(
    record: ShardRecord, member: Member, process: int, alive: Mapping[str, int], size_min: int
) -> ShardRecord:
    """The record as a candidate wants it: led by it, without members that do not run.

    The set keeps `size_min` members, running or not: until others have joined, nothing can be committed
    without them.
    """
    gone = sorted(record.in_sync - alive.keys() - {member.node})
    shrunk = InSyncSet(record).shrunk(gone, size_min)
    return (shrunk or record).led_by(member, process)


def claim_reason(record: ShardRecord, wanted: ShardRecord) -> str:
    """Why a node claims what it wants, in words."""
    if not record.leader:
        told = "nobody has led yet"
    elif record.claim == 0:
        told = f"{record.leader} was to lead"
    else:
        told = f"{record.leader}, or its process that led, is gone"
    left = sorted(record.in_sync - wanted.in_sync)
    gone = f"; not alive, so not in sync any more: {', '.join(left)}" if left else ""
    return f"{wanted.leader} leads: {told}{gone}"
