"""What an operator wants of a cluster: whether it can be had, what brings it nearer, whether it is reached.

A goal looks at what the coordinator holds, again and again.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from routelog.mirror_cluster.commands.cluster_status import alive_in_sync, is_led
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    NodeCommand,
    NodeEntry,
    ReplicaNote,
    Verb,
)
from routelog.mirror_cluster.coordination.refused_record import (
    most,
    refused,
    refusing,
    serving,
    standing,
    unanswered,
)
from routelog.mirror_cluster.protocol.shard_record import SHARD, ShardRecord

_END = (
    "to end the cluster, stop all nodes, the leader last, and start that one without cluster_nodes"
)


class Goal(Protocol):
    """What an operator wants of a cluster."""

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""

    def change(self, view: ClusterView) -> ShardRecord | None:
        """The record as this wants it next, where no node has to do anything for that."""

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done.

        Args:
            sent: the commands that were left for nodes.
        """


class _NodesOnly:
    """A goal that nodes reach, by commands."""

    def change(self, view: ClusterView) -> ShardRecord | None:
        """The record as this wants it next, where no node has to do anything for that."""
        return None


class _OfNode:
    # What is to become of one node, where a command began.

    def __init__(self, begun: ClusterView, node: str) -> None:
        self._begun = begun
        self._node = node


class TransferGoal(_NodesOnly):
    """Another node leads.

    Args:
        to: which one; empty: any.
    """

    def __init__(self, begun: ClusterView, to: str) -> None:
        self._begun = begun
        self._to = to

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        record = _record(self._begun)
        if record is None or not is_led(record, self._begun):
            return "nobody leads"
        able = alive_in_sync(record, self._begun) - {record.leader}
        if self._to and self._to not in able:
            is_alive = self._to in self._begun.nodes
            return f"{self._to} is not {'in sync' if is_alive else 'alive'}"
        return "" if able else "no other node is alive and in sync"

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        record = _record(view)
        if record is None or not is_led(record, view):
            return None
        return NodeCommand(record.leader, record.claim, Verb.TRANSFER, self._to)

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record, before = _record(view), _record(self._begun)
        if record is None or before is None or not is_led(record, view):
            return False
        return record.leader == self._to if self._to else record.leader != before.leader


class DrainGoal(_NodesOnly):
    """A node leads nothing and is in no in-sync set: it can be stopped, and nobody waits for it.

    A leader hands over first. Its process ends with that, and the next one is told to drain: until it has
    taken that, it is out of the in-sync set for a moment only.
    """

    def __init__(self, begun: ClusterView, node: str, min_in_sync: int) -> None:
        self._begun = begun
        self._node = node
        self._min_in_sync = min_in_sync

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        record = _record(self._begun)
        if record is None or not is_led(record, self._begun):
            return "nobody leads"
        if self._node not in self._begun.nodes:
            return f"{self._node} is not alive"
        return would_stop(record, self._begun, self._node, self._min_in_sync)

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        record, entry = _record(view), view.nodes.get(self._node)
        if record is None or entry is None:
            return None
        if record.leader == self._node:
            is_leading = entry.process == record.claim
            return NodeCommand(self._node, record.claim, Verb.TRANSFER) if is_leading else None
        before = _record(self._begun)
        if before is not None and before.claim == entry.process:
            return None
        return NodeCommand(self._node, entry.process, Verb.DRAIN)

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record, entry = _record(view), view.nodes.get(self._node)
        if record is None or entry is None or self._node in {record.leader, *record.in_sync}:
            return False
        told = [each.process for each in sent if each.verb is Verb.DRAIN]
        return entry.process in told and self._node not in view.commands


class _DrainedFirst(_OfNode):
    # What is to become of a node that the others do without from then on.

    def __init__(self, begun: ClusterView, node: str, min_in_sync: int) -> None:
        super().__init__(begun, node)
        self._min_in_sync = min_in_sync
        self._drain = DrainGoal(begun, node, min_in_sync)


class RepairGoal(_DrainedFirst, _NodesOnly):
    """A node has given up what it had, which is damaged, and takes a copy of the leader's data.

    It is drained first: one change of the record decides which members do without it, so that several are not
    given up at once. Who refuses the record is in no set that counts. Who has given up its data has another
    incarnation.
    """

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        return self._problem(self._begun)

    def _problem(self, view: ClusterView) -> str:
        problem = refused(SHARD, view)
        if problem and not serving(_record(view), view.notes(SHARD)):
            return problem  # whose data count is not known yet
        return DrainGoal(view, self._node, self._min_in_sync).refusal()

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        record, command = _record(view), self._drain.command(view)
        if record is None or command is None or command.verb is not Verb.DRAIN:
            return command
        if self._problem(view) or self.is_reached(view, ()):
            return None
        is_member = self._node in record.in_sync and self._node not in refusing(view.notes(SHARD))
        return command if is_member else replace(command, verb=Verb.REPAIR)

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        entry, before = view.nodes.get(self._node), self._begun.nodes.get(self._node)
        if entry is None or before is None:
            return False
        return entry.incarnation != before.incarnation


class InitGoal(_NodesOnly):
    """The cluster begins with the data of one node, whatever others have; or again, as nodes refuse its record.

    Args:
        names: of all nodes.
        accepts_loss: what was on nodes that are not alive, or have other disks, may be lost.
    """

    def __init__(
        self,
        begun: ClusterView,
        node: str,
        names: Collection[str],
        min_in_sync: int,
        *,
        accepts_loss: bool,
    ) -> None:
        self._begun = begun
        self._node = node
        self._names = names
        self._min_in_sync = min_in_sync
        self._accepts_loss = accepts_loss

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        view, record = self._begun, _record(self._begun)
        if self._node not in view.nodes:
            return f"{self._node} is not alive"
        notes = view.notes(SHARD)
        if record is not None and not refusing(notes):
            return f"the cluster has begun: {record.leader or 'nobody'} leads epoch {record.epoch}"
        if leader := serving(record, notes):
            return f"{leader} leads, and confirms: what only {self._node} has is not to be had"
        return self._loss(record, notes) if refusing(notes) else ""

    def _loss(self, record: ShardRecord | None, notes: dict[str, ReplicaNote]) -> str:
        """What would be lost of a cluster that has begun before; empty: nothing."""
        best, own = most(record, notes), notes.get(self._node)
        if not best:
            then = unanswered(record, notes) or "start all of this cluster"
            return f"nobody can tell yet which node has most: {then}"
        if own is None or standing(best, notes) > standing(self._node, notes):
            return f"{best} has more than {self._node}: `routelog cluster init --from {best}`"
        missing = self._missing(record, own)
        # So many may have everything, and no other one.
        if len(missing) >= self._min_in_sync and not self._accepts_loss:
            return (
                f"{', '.join(missing)} are not alive with the data that they had: start them with it,"
                f" or lose it: --accept-loss"
            )
        return ""

    def _missing(self, record: ShardRecord | None, own: ReplicaNote) -> list[str]:
        """Nodes whose data nobody sees: their disks may be other ones, or not be there."""
        nodes, known = self._begun.nodes, own.promise
        names = {*self._names, *nodes}
        if record is not None and record.cluster == known.cluster:
            names.update(record.replicas)
        # Only a node that has gone on alone has blocks of an epoch that is no record's: no other's data count.
        is_alone = own.end[0] > known.epoch
        return sorted(
            name
            for name in names
            if name not in nodes or not (is_alone or _has_data(nodes[name], known.cluster))
        )

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        entry = view.nodes.get(self._node)
        if entry is None or self._has_begun(view):
            return None
        # What the refusal was judged by: told again, a node may find a record that nobody refuses.
        record = _record(self._begun)
        seen = record.revision if record is not None else 0
        return NodeCommand(self._node, entry.process, Verb.INIT, seen=seen)

    def _has_begun(self, view: ClusterView) -> bool:
        record, before = _record(view), _record(self._begun)
        return record is not None and (before is None or record.begun != before.begun)

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record = _record(view)
        if record is None or not self._has_begun(view):
            return False
        return record.leader == self._node and is_led(record, view)


class RecoverGoal(_OfNode, _NodesOnly):
    """A node leads with what it has, as none of those that have everything comes back."""

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        record = _record(self._begun)
        if record is None:
            return "the cluster has not begun: `routelog cluster init --from NODE`"
        if is_led(record, self._begun):
            return f"{record.leader} leads: there is nothing to recover"
        able = alive_in_sync(record, self._begun)
        if able:
            return f"{', '.join(sorted(able))} will lead, without a loss"
        return "" if self._node in self._begun.nodes else f"{self._node} is not alive"

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        entry, before = view.nodes.get(self._node), _record(self._begun)
        if entry is None or before is None:
            return None
        return NodeCommand(self._node, entry.process, Verb.RECOVER, seen=before.revision)

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record, before = _record(view), _record(self._begun)
        if record is None or before is None or not is_led(record, view):
            return False
        return record.leader == self._node and record.unclean > before.unclean


class JoinGoal(_OfNode):
    """A node is to have a copy: it takes part, and is in sync when it has caught up."""

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        record = _record(self._begun)
        if record is None:
            return "the cluster has not begun: all nodes of cluster_nodes will be in it"
        if problem := refused(SHARD, self._begun):
            return problem
        if not is_led(record, self._begun):
            return "nobody leads"
        return "" if self._node in self._begun.nodes else f"{self._node} is not alive"

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        return None

    def change(self, view: ClusterView) -> ShardRecord | None:
        """The record as this wants it next, where no node has to do anything for that."""
        record = _record(view)
        if record is None or refused(SHARD, view):
            return None
        return record.with_replicas((*record.replicas, self._node))

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record = _record(view)
        return record is not None and self._node in record.replicas


class LeaveGoal(_DrainedFirst):
    """A node, alive or not, has no copy any more, and takes no part: one that is alive is drained first."""

    def refusal(self) -> str:
        """Why this cannot be had as things are; empty: it can."""
        record = _record(self._begun)
        if problem := refused(SHARD, self._begun):
            return problem
        if record is None or not is_led(record, self._begun):
            return "nobody leads"
        problem = would_stop(record, self._begun, self._node, self._min_in_sync)
        left = {*record.replicas} - {self._node}
        if problem and len(left) < self._min_in_sync:
            problem += f"; {_END}"
        return problem

    def command(self, view: ClusterView) -> NodeCommand | None:
        """What to ask of which node next."""
        return self._drain.command(view)

    def change(self, view: ClusterView) -> ShardRecord | None:
        """The record as this wants it next, where no node has to do anything for that."""
        record = _record(view)
        if record is None or self._node in {record.leader, *record.in_sync}:
            return None
        if refused(SHARD, view):
            return None
        return record.with_replicas(tuple(each for each in record.replicas if each != self._node))

    def is_reached(self, view: ClusterView, sent: Sequence[NodeCommand]) -> bool:
        """Whether it is done."""
        record = _record(view)
        return record is not None and self._node not in record.replicas


def would_stop(record: ShardRecord, view: ClusterView, node: str, min_in_sync: int) -> str:
    """Why nothing would be confirmed without a node; empty: it would be."""
    left = alive_in_sync(record, view) - {node}
    if len(left) >= min_in_sync:
        return ""
    names = ", ".join(sorted(left)) or "nobody"
    wanted = f"cluster_min_in_sync is {min_in_sync}"
    return f"confirms would stop: without it, {names} would be in sync, and {wanted}"


def _has_data(entry: NodeEntry, cluster: int) -> bool:
    """Whether a node has data of a cluster, on the disk that was in sync if one of this node was."""
    note = entry.notes.get(SHARD)
    if note is None or note.promise.cluster != cluster:
        return False
    return note.promise.incarnation in (0, entry.incarnation)


def _record(view: ClusterView) -> ShardRecord | None:
    return view.records.get(SHARD)
