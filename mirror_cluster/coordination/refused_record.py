"""A record that nodes refuse: it is missing, older than they know, or another cluster's.

Nothing is done about it by itself: only an operator knows whether that etcd is the right one.
"""

from routelog.mirror_cluster.coordination.coordinator import ClusterView, ReplicaNote
from routelog.mirror_cluster.protocol.promise import NOTHING
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

Notes = dict[str, ReplicaNote]


def refusing(notes: Notes) -> Notes:
    """The nodes that refuse the record of a shard, or that there is none."""
    return {name: note for name, note in notes.items() if note.refusal}


def serving(record: ShardRecord | None, notes: Notes) -> str:
    """The node that confirms by the record that is there; empty: none, or nobody can tell yet."""
    if record is None:
        return ""
    promises = [note.promise for note in notes.values()]
    # Its leader confirms by a later one, and may not have seen that this is gone; or it is another cluster's.
    if any(each.is_of(record) and each.refusal(record) for each in promises) or _is_mixed(notes):
        return ""
    leader = notes.get(record.leader)
    members = [notes.get(name, ReplicaNote()) for name in record.in_sync]
    follow = (each.is_in_sync and each.promise.is_of(record) for each in members)
    is_led = leader is not None and leader.is_alone and not any(each.refusal for each in members)
    return record.leader if is_led and all(follow) else ""


def standing(node: str, notes: Notes) -> tuple[object, ...]:
    """Of two nodes, the one with the greater has what was confirmed, if one of them has.

    Members of the newest in-sync set have everything; others may be as long, while their leader goes on.
    """
    # Who refuses knows more than what is there, and so than those that take it.
    promises = [note.promise for note in refusing(notes).values()]
    newest = max(promises, key=lambda each: (each.begun, each.revision), default=NOTHING)
    note = notes[node]
    is_member = note.is_in_sync and (not newest.in_sync or node in newest.in_sync)
    known = note.promise
    return note.is_alone, known.begun, is_member, note.end, known.revision


def _is_mixed(notes: Notes) -> bool:
    """Whether nodes of several clusters are there: none of them is to give up anything for another one's."""
    return len({note.promise.cluster for note in notes.values()} - {0}) > 1


def most(record: ShardRecord | None, notes: Notes) -> str:
    """The node that has what was confirmed, if one of those that run has; empty: nobody can tell yet.

    Where most refuse, one of them knows the newest in-sync set; else it may be that the others do.
    """
    found = refusing(notes)
    if 2 * len(found) <= len(notes):
        found = notes
    # Who serves by what is there may confirm, or have been cut off when others did.
    if any(note.serves and not note.refusal for note in found.values()):
        return ""
    if record is not None and _is_mixed(notes):
        return ""
    if any(note.promise.refusal(record) and not note.refusal for note in notes.values()):
        return ""
    return max(found, key=lambda name: (standing(name, notes), name))


def unanswered(record: ShardRecord | None, notes: Notes) -> str:
    """What to do about a leader that serves, and confirms nothing while its set lacks a member; empty: nothing.

    What it may confirm later keeps `most` from an answer: a process that was started again serves no more.
    """
    leader = notes.get(record.leader) if record is not None else None
    if record is None or leader is None or leader.refusal or _is_mixed(notes):
        return ""
    lacks = any(name not in notes or notes[name].refusal for name in record.in_sync)
    if not leader.serves or leader.is_alone or not lacks:
        return ""
    return (
        f"start all nodes of this cluster; if some are gone for good, restart {record.leader}:"
        " it serves by what is there, and too few answer it"
    )


def refused(shard: int, view: ClusterView) -> str:
    """What is refused and why, and the command that mends it; empty: nothing."""
    notes = view.notes(shard)
    found = refusing(notes)
    if not found:
        return ""
    record = view.records.get(shard)
    what = f"{next(iter(found.values())).refusal}: {', '.join(found)} refuse it"
    if leader := serving(record, notes):
        node = next(iter(found))
        return (
            f"{what}, and {leader} confirms by it. `routelog cluster repair {node}` gives up what"
            f" only {node} has"
        )
    best, then = most(record, notes), unanswered(record, notes)
    if best:
        then = f"start all nodes, and `routelog cluster init --from {best}`"
    return f"{what}. Is it the right etcd?" + (f" Then {then}" if then else "")
