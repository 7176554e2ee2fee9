"""What must stay true, checked at each step, against what the disks and the coordinator really hold.

The numbers in the messages are those of the invariants in docs/internals/mirroring.md.
"""

from collections import Counter
from typing import TYPE_CHECKING

from simulation.broker import Broker
from simulation.clients import ENDED, Clients

from routelog.log_backend import Mark, ShardBlock
from routelog.mirror_cluster.protocol.messages import Acknowledge, Fenced, Hello, Message
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.chain import Chain

if TYPE_CHECKING:
    from simulation.cluster import Cluster
    from simulation.node import Node

# A leader that was deposed serves no more by then: two leases, and a turn of its loop.
DEPOSED_SECONDS = 5.0


class Violation(AssertionError):
    """An invariant does not hold."""


class Checker:
    """Knows everything that was ever committed and confirmed."""

    def __init__(self, cluster: "Cluster") -> None:
        self.history: dict[int, Mark] = {0: Mark(0, 0, 0)}
        self.payloads: dict[int, bytes] = {}
        self.confirmed_end = 0
        self.confirms: dict[bytes, int] = {}
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._leaders: dict[int, tuple[str, int]] = {}
        self._blocks: dict[tuple[int, int], ShardBlock] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._promised: dict[str, int] = {}
        self._erased: dict[str, set[int]] = {}
        self._gone: dict[str, set[int]] = {}
        self._committed_of: dict[int, int] = {}
        self._deposed_at: dict[int, float] = {}
        self._served_epoch = 0
        self._rotten: set[str] = set()  # at any time
        self._older: set[str] = set()  # the same

    # Steps of a node

    def recovered(self, node: "Node", chain: Chain) -> None:
        """A process has read its disk."""
        gone = self._gone.get(node.name, set())
        for position in range(chain.base.position + 1, chain.end_position + 1):
            mark = chain.mark(position)
            self._must(
                mark is not None and mark.checksum not in gone,
                f"I11: {node.name} has block {position} again, which it had told its leader is cut",
            )
        self._erased[node.name] = set()
        if chain.base.position in self.history and not self._is_outdated(chain.base.epoch):
            known = self.history[chain.base.position] == chain.base
            self._must(known, f"I2: {node.name} begins behind another block {chain.base}")

    def copied(self, node: "Node", checkpoint: Mark) -> None:
        """A checkpoint takes the place of what a node had."""
        self.counts["copies"] += 1
        self._committed_of.pop(node.process, None)
        known = self.history.get(checkpoint.position)
        if not self._is_outdated(checkpoint.epoch):
            self._must(
                known == checkpoint, f"I2: {node.name} gets a copy that ends in {checkpoint}"
            )
            is_member = node.member in self._cluster.coordinator.last.members
            self._must(
                not is_member or self._was_set_back or checkpoint.position >= self._committed_end,
                f"I3: {node.name} is in sync, and its copy ends in {checkpoint}",
            )

    def proposed(self, node: "Node", record: ShardRecord) -> None:
        """A node asks the coordinator for another record."""
        assert node.replica is not None
        known = self._cluster.coordinator.last
        claims = record.leader == node.name and record.epoch > known.epoch
        if not claims or record.unclean != known.unclean or self._was_set_back:
            return
        nodes = self._cluster.nodes
        members = {each for each in record.in_sync if nodes[each].member in record.members}
        whole = members - self._rotten - {node.name}
        self._must(
            not (node.disk.platter.is_rotten and whole),
            f"I17: {node.name} claims, and {sorted(whole)} can read all",
        )

    def rotten(self, node: "Node") -> None:
        """A node cannot read all that it has."""
        self._rotten.add(node.name)

    def wiped(self, node: "Node") -> None:
        """Its disk is another one."""
        for known in (self._promised, self._erased, self._gone):
            known.pop(node.name, None)

    def older(self, node: "Node") -> None:
        """Its disk is as it was at some time before."""
        self.wiped(node)
        self._older.add(node.name)

    def sent(self, node: "Node", message: Message) -> None:
        """A message leaves."""
        if isinstance(message, Hello | Acknowledge):
            before = self._promised.get(node.name, 0)
            if message.epoch < before:
                text = f"I4: {node.name} follows epoch {message.epoch} after epoch {before}"
                raise Violation(text)
            self._promised[node.name] = message.epoch
        elif not isinstance(message, Fenced) and node.replica and node.replica.leader:
            self._leads(node, message.epoch)
        if isinstance(message, Acknowledge) and self._erased.get(node.name):
            self._gone.setdefault(node.name, set()).update(self._erased.pop(node.name))

    def stored(self, node: "Node", blocks: tuple[ShardBlock, ...]) -> None:
        """Blocks go to a disk."""
        leads = node.replica is not None and node.replica.leader is not None
        gone = self._gone.get(node.name, set())
        for block in blocks:
            if leads:
                self._leads(node, block.epoch)
            self._blocks[block.position, block.checksum] = block
            key = (block.epoch, block.position)
            same = self._made.setdefault(key, block.checksum) == block.checksum
            if not (same or self._was_set_back):
                raise Violation(f"I2: two blocks {block.position} of epoch {block.epoch}")
            gone.discard(block.checksum)

    def truncated(self, node: "Node", position: int, erased: list[ShardBlock]) -> None:
        """Blocks are erased from a disk."""
        self.counts["truncations"] += 1
        self._must(
            position >= node.applied,
            f"I12: {node.name} erases from {position}, applied is {node.applied}",
        )
        found = self._erased.setdefault(node.name, set())
        found.update(block.checksum for block in erased)

    def committed(
        self, node: "Node", applied: int, position: int, blocks: dict[int, ShardBlock]
    ) -> None:
        """A node is told that blocks are committed, and applies them."""
        replica = node.replica
        assert replica is not None
        leader = replica.leader
        epoch = leader.epoch if leader else replica.promise.epoch
        before = self._committed_of.get(node.process, 0)
        if position < before:
            raise Violation(f"I5: committed falls at {node.name} to {position}")
        self._committed_of[node.process] = position
        mark = replica.log.chain.mark(position)
        if mark is None or self._is_outdated(epoch):
            return
        if position > replica.log.durable:
            raise Violation(f"I12: {node.name} applies what is not durable")
        for each in range(applied + 1, position + 1):
            here = replica.log.chain.mark(each)
            if here is None:
                continue
            known = self.history.setdefault(each, here)
            if known != here:
                raise Violation(f"I2: {node.name} has another committed block {each}: {here}")
            if each in blocks:
                self.payloads[each] = bytes(blocks[each].payload)
        if leader is not None:
            self._is_on_disks(node, mark, epoch)
        elif position > self._committed_end:
            raise Violation(f"I10: {node.name} applies {position}, no leader had committed that")

    def confirmed(self, node: "Node", position: int, payload: bytes) -> None:
        """A client gets its confirm."""
        assert node.replica is not None
        assert node.replica.leader is not None
        if self._is_outdated(node.replica.leader.epoch):
            return
        self.counts["confirms"] += 1
        if payload in self.confirms:
            raise Violation(f"I6: {payload!r} is confirmed twice")
        if self.payloads.get(position) != payload:
            raise Violation(f"I6: {payload!r} is not at {position}")
        self.confirms[payload] = position
        self.confirmed_end = max(self.confirmed_end, position)

    def served(self, node: "Node", epoch: int) -> None:
        """A leader begins to take publishes."""
        self.counts["leaders"] += 1
        self._leads(node, epoch)
        known = 0 if self._was_set_back else self._cluster.coordinator.last.epoch
        if self._is_outdated(epoch) or epoch < max(known, self._served_epoch):
            return
        self._served_epoch = epoch
        record = self._cluster.coordinator.record
        if record is not None and (record.epoch, record.claim) == (epoch, node.process):
            self._cluster.coordinator.is_set_back = False
        self._must(
            node.applied >= self.confirmed_end,
            f"I13: {node.name} serves with {node.applied} applied of {self.confirmed_end} confirmed",
        )

    def tells(self, name: str, broker: Broker, end: int) -> None:
        """What a broker that has loaded its queues tells is what the committed journal says, and no more."""
        self.counts["accounts"] += 1
        with self._cluster.another_broker() as reader:
            reader.store(self._committed_blocks(end))
            reader.commit(end)
            reader.lead_alone(1 << 30)
            expected, found = reader.told(), broker.told()
        left = broker.transient()
        self._must(not left, f"I18: {name} begins with {left} of the leader before it")
        for what in sorted(expected.keys() | found.keys()):
            here, there = found.get(what), expected.get(what)
            self._must(
                here == there,
                f"I18: {name} tells of {what}: {here}, and the journal up to {end}: {there}",
            )

    def tells_in_the_end(self, name: str, broker: Broker, clients: Clients) -> None:
        """A node that leads alone has all that clients can count on, now and when all has become due."""
        broker.lead_alone((1 << 30) + 1)
        self.tells(name, broker, self._committed_end)
        for seconds in (0.0, *[ENDED / 8] * 8):
            self._cluster.scheduler.now += seconds
            broker.commit_all()
            wrong = clients.wrong(broker.bodies())
            self._must(wrong is None, f"I19: at {name} {wrong}")
        still = broker.held()
        self._must(not still, f"I19: {name} still holds {still}")

    def _committed_blocks(self, end: int) -> list[ShardBlock]:
        marks = [self.history[position] for position in range(1, end + 1)]
        return [self._blocks[mark.position, mark.checksum] for mark in marks]

    def ticked(self, node: "Node") -> None:
        """A turn of a node's loop."""
        # Who has claimed an epoch and is not followed serves nobody: until it does, the one before may go on. A
        # leader that has lost its lease takes no publishes, and may be cut off from all news for long.
        replica, served = node.replica, self._served_epoch
        is_first = replica is None or not replica.serving or replica.leader.epoch >= served
        if is_first or self._was_set_back:
            self._deposed_at.pop(node.process, None)
            return
        if self._is_outdated(replica.leader.epoch) and len(replica.leader.counted) == 1:
            # Alone in its set and cut off: only an operator's command, which accepts that, can depose it.
            self._deposed_at.pop(node.process, None)
            return
        now = self._cluster.scheduler.now
        since = self._deposed_at.setdefault(node.process, now)
        if now - since >= DEPOSED_SECONDS:
            epoch = replica.leader.epoch
            raise Violation(
                f"I14: {node.name} serves epoch {epoch}, long after {served} was served"
            )

    # Steps of the coordinator

    def changed(self, before: ShardRecord, after: ShardRecord) -> None:
        """The record of the shard is another one."""
        self.counts["records"] += 1
        leader = self._cluster.nodes.get(after.leader)
        if leader is not None and leader.serves and leader.process == after.claim:
            self._cluster.coordinator.is_set_back = False  # it served before, and goes on
        if after.begun != before.begun:
            return
        if after.unclean != before.unclean:
            self._forgive(after)
            return
        if self._was_set_back:
            return
        self._must(after.epoch >= before.epoch, f"I1: the epoch falls to {after.epoch}")
        size_min = self._cluster.settings.min_in_sync
        is_older = (before.in_sync - after.in_sync) & self._older
        self._must(
            len(after.in_sync) >= min(size_min, len(before.in_sync)) or bool(is_older),
            f"I15: in sync are {sorted(after.in_sync)}, {size_min} must be",
        )
        end = self.history[self._committed_end]
        for name in sorted(after.in_sync - before.in_sync):
            has = self._has(name, after, end)
            self._must(has, f"I3: {name} joins the in-sync set without committed block {end}")
        if after.epoch > before.epoch:
            has = self._has(after.leader, after, end)
            self._must(has, f"I3: {after.leader} leads without committed block {end}")

    @property
    def _committed_end(self) -> int:
        return len(self.history) - 1

    def _forgive(self, after: ShardRecord) -> None:
        """An operator accepted that only what this leader has is true."""
        self.counts["unclean elections"] += 1
        node = self._cluster.nodes[after.leader]
        chain, _ = node.disk.recover()
        if node.replica is not None:
            chain = node.replica.log.chain
        kept = min(self._committed_end, chain.end_position)
        while kept > chain.base.position and chain.mark(kept) != self.history[kept]:
            kept -= 1
        # It may have what an election before this one gave up.
        end = chain.mark(max(kept, node.applied, chain.base.position))
        assert end is not None
        self.history, self.payloads = {0: Mark(0, 0, 0)}, {}
        blocks = []
        while end.position:
            block = self._blocks[end.position, end.checksum]
            blocks.append(block)
            end = self._mark_before(block)
        for block in reversed(blocks):
            self.history[block.position] = block.mark
            self.payloads[block.position] = bytes(block.payload)
        self.confirms = {
            each: at for each, at in self.confirms.items() if self.payloads.get(at) == each
        }
        self.confirmed_end = max(self.confirms.values(), default=0)

    def _mark_before(self, block: ShardBlock) -> Mark:
        if block.position == 1:
            return Mark(0, 0, 0)
        return self._blocks[block.position - 1, block.previous].mark

    # At the end

    def agreed(self) -> str | None:
        """Whether all replicas are the same; what is not, if they are not."""
        record, nodes = self._cluster.coordinator.last, self._cluster.nodes
        leader = nodes[record.leader].replica if record.leader else None
        if leader is None or not leader.serving:
            return "nobody leads"
        if record.in_sync != set(record.replicas):
            return f"in sync are {sorted(record.in_sync)}"
        end = leader.log.chain.end
        for name in record.replicas:
            replica = nodes[name].replica
            if replica is None or replica.log.chain.end != end:
                return f"{name} ends elsewhere"
            if nodes[name].applied != end.position:
                return f"{name} has applied {nodes[name].applied} of {end.position}"
            if (broker := nodes[name].broker) is not None and broker.made:
                return f"{name} has made blocks that its replica does not know"
        return None

    def finish(self) -> None:
        """Every confirmed message is there, once."""
        self._must(self.history.keys() == set(range(len(self.history))), "I2: a gap")
        count = Counter(self.payloads.values())
        del count[b""]
        for payload, position in self.confirms.items():
            self._must(
                count[payload] == 1 and self.payloads[position] == payload,
                f"I3: confirmed {payload!r} is there {count[payload]} times",
            )
        if self._cluster.clients is not None:
            return
        twice = [payload for payload, number in count.items() if number > 1]
        self._must(not twice, f"I3: published once, and there more often: {twice[:3]}")

    # What is asked of the truth

    def _leads(self, node: "Node", epoch: int) -> None:
        known = self._leaders.setdefault(epoch, (node.name, node.process))
        if known != (node.name, node.process) and not self._was_set_back:
            raise Violation(f"I1: {node.name} and {known[0]} both lead epoch {epoch}")

    def _is_on_disks(self, node: "Node", mark: Mark, epoch: int) -> None:
        """What a leader calls committed is on the disk of every member of the in-sync set."""
        record, replica = self._cluster.coordinator.last, node.replica
        assert replica is not None
        assert replica.leader is not None
        if self._was_set_back:
            return
        for name in sorted(record.in_sync):
            if not self._has(name, record, mark):
                raise Violation(f"I6: {node.name} commits {mark}, {name} does not have it")
        if record.epoch != epoch:
            return
        counted = replica.leader.counted
        if not counted >= record.members:
            raise Violation(f"I7: {node.name} counts {sorted(counted)} only")
        copies = sum(each.disk.has(mark) for each in self._cluster.nodes.values())
        if copies < self._cluster.settings.min_in_sync - self._cluster.wiped:
            raise Violation(f"I6: {node.name} commits {mark} with {copies} copies")

    def _has(self, name: str, record: ShardRecord, mark: Mark) -> bool:
        """Whether a member has a block; one whose disk was wiped since is no member."""
        node = self._cluster.nodes[name]
        if node.member not in record.members:
            return True
        return node.disk.has(mark)

    @property
    def _was_set_back(self) -> bool:
        """Whether the coordinator has forgotten something: then no record tells who may do what.

        What is left to be true: what is committed, what is confirmed, and who serves.
        """
        return self.counts.get("set back", 0) > 0

    def _is_outdated(self, epoch: int) -> bool:
        """Whether an operator has given up what this epoch's leader still says."""
        return epoch < self._cluster.coordinator.last.unclean

    def _must(self, holds: bool, text: str) -> None:
        if not holds:
            raise Violation(text)
