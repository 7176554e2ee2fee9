"""A node of the simulated cluster: it carries out what its replica decides."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import TYPE_CHECKING, Any, ClassVar

from simulation.broker import Broker
from simulation.disk import Disk

from routelog.log_backend import CopyFailed, DataCopy, Mark, ShardBlock
from routelog.mirror_cluster.node.cluster_node import replica_note
from routelog.mirror_cluster.protocol.message_format import decode_message, encode_message
from routelog.mirror_cluster.protocol.messages import Append, Message
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica import actions as act
from routelog.mirror_cluster.replica import events as on
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.lease import Lease, LeaseChanged, ProbeDisk, RenewLease
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.shard_log import Identity

if TYPE_CHECKING:
    from simulation.cluster import Cluster

SHARD = 0
TICK_SECONDS = 0.1
COORDINATOR_SECONDS = 1.0  # without an answer for so long, the outcome of a request is unknown
CHECKPOINT_BLOCKS = 12
_PROBED = object()


class Node:
    """One process after the other on one disk.

    Attributes:
        broker: carries out what is committed, and makes the blocks; None: no blocks have any meaning.
    """

    def __init__(self, cluster: "Cluster", name: str, randomness: Random) -> None:
        self.name = name
        self.cluster = cluster
        self.disk = Disk(cluster.scheduler, randomness, randomness.getrandbits(63))
        self.disk.deliver = self._from_disk
        self.replica: Replica | None = None
        self.process = 0
        self.is_paused = False
        self.applied = 0
        self.stays_down = False
        self.drains = False  # on its way to a stop
        self.waiting: list[tuple[int, bytes]] = []  # publishes without a confirm, by position
        self._randomness = randomness
        self._blocks: dict[int, ShardBlock] = {}
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.lease = Lease(2.0, 0.3)
        self._requests = 0
        self._open_requests: set[int] = set()
        self._copies = 0
        self._copying: tuple[int, int, DataCopy] | None = None
        self.broker: Broker | None = None

    @property
    def has_broker(self) -> bool:
        """Whether its blocks have a meaning."""
        return self.cluster.clients is not None

    @property
    def member(self) -> Member:
        """The node with the disk that it has."""
        return Member(self.name, self.disk.platter.incarnation)

    @property
    def serves(self) -> bool:
        """Whether it takes a publish."""
        return self.replica is not None and not self.is_paused and self.replica.serving

    # The life of a process

    def start(self) -> None:
        """Recover from the disk, and run."""
        if self.replica is not None or self.stays_down:
            return
        chain, self._blocks = self.disk.recover()
        platter = self.disk.platter
        self.process = self._randomness.getrandbits(63)
        self.applied = platter.applied
        if self.has_broker:
            self._open_broker(chain)
        self.waiting = []
        self._inbox = []
        self._open_requests.clear()
        self.drains = False
        self.lease = Lease(2.0, 0.3)
        self._copies += 1
        self.cluster.checker.recovered(self, chain)
        identity = Identity(SHARD, self.member, self.process)
        settings = self.cluster.settings
        self.replica = Replica(identity, settings, chain, platter.promise, self.applied)
        self.cluster.coordinator.watchers[self.name] = self._watcher(self.process)
        self.handle(on.Damaged(platter.is_rotten))
        self._tick(self.process)

    def _open_broker(self, chain: Chain) -> None:
        broker = self.broker = Broker(self._data, lambda: self.cluster.scheduler.now)
        broker.agree(chain, self._blocks, self.applied)
        self.applied = broker.applied

    @property
    def _data(self) -> Path:
        return self.cluster.directory / self.name

    def crash(self, power: bool, restart_after: float | None) -> None:
        """The process ends, and perhaps comes back."""
        self.disk.crash(power)
        self._end(restart_after)

    def wipe(self, restart_after: float) -> None:
        """The process ends and finds an empty disk, or a damaged one."""
        lose = self._randomness.choice((self.disk.wipe, self.disk.damage))
        if self.has_broker:
            lose = self.disk.wipe  # as a node with a damaged journal puts its data aside
        lose(self._randomness.getrandbits(63))
        self.cluster.checker.wiped(self)
        self._end(restart_after)
        if self.has_broker:
            rmtree(self._data, ignore_errors=True)  # it may never have been started on that disk

    def give_up(self) -> None:
        """An operator's command: what is here goes, and what it knows of records stays."""
        promise = self.disk.platter.promise
        self.wipe(0.5)
        self.disk.platter.promise = promise

    def rot(self, place: int) -> None:
        """A place of what is applied cannot be read any more."""
        self.disk.platter.rotten = frozenset((place,))
        self.handle(on.Damaged())

    def _end(self, restart_after: float | None) -> None:
        self.replica = None
        if self.broker is not None:
            self.broker.kill()
            self.broker = None
        self.is_paused = False
        self._inbox = []
        self.cluster.coordinator.watchers.pop(self.name, None)
        if restart_after is not None:
            self.cluster.scheduler.after(restart_after, self.start)

    def pause(self) -> None:
        """SIGSTOP: what comes is kept."""
        self.is_paused = self.replica is not None

    def resume(self) -> None:
        """SIGCONT."""
        self.is_paused = False
        inbox, self._inbox = self._inbox, []
        for call, arguments in inbox:
            call(*arguments)

    # What comes in

    def handle(self, event: on.Event) -> None:
        """Give the replica an event and do what it says."""
        if self.replica is not None:
            self._carry_out(self.replica.handle(event, self.cluster.scheduler.now))

    def submit(self, payload: bytes) -> None:
        """A client publishes."""
        if self.broker is None:
            self.waiting.append((self._append(payload), payload))
        elif self.broker.vhost is not None:
            assert self.cluster.clients is not None
            self.broker.do(self.cluster.clients.act(self.broker))
            self._hand_over()

    def receive(self, sender: str, message: Message) -> None:
        """A message has arrived."""
        self._in_turn(self.process, self.handle, on.Received(sender, message))

    def _in_turn(self, process: int, call: Callable[..., None], *arguments: Any) -> None:
        if self.replica is None or process != self.process:
            return
        if self.is_paused:
            self._inbox.append((call, arguments))
        else:
            call(*arguments)

    def _from_disk(self, event: Any) -> None:
        if event is _PROBED:
            self._in_turn(self.process, self._probed)
        else:
            self._in_turn(self.process, self.handle, event)

    def _watcher(self, process: int) -> Callable[[Any], None]:
        return lambda event: self._in_turn(process, self.handle, event)

    def _tick(self, process: int) -> None:
        if self.replica is None or process != self.process:
            return
        self.cluster.scheduler.after(
            TICK_SECONDS * self._randomness.uniform(0.9, 1.1), self._tick, process
        )
        if not self.is_paused:
            now = self.cluster.scheduler.now
            self._work()
            self._keep_lease(self.lease.tick(now))
            self.handle(on.Tick())
            self.cluster.checker.ticked(self)

    def _work(self) -> None:
        """The broker's timers ring."""
        if self.broker is not None:
            self.broker.settle()
            self._hand_over()

    def _hand_over(self) -> None:
        """The replica gets the blocks that the broker made."""
        while self.broker is not None and self.broker.made:
            block = self.broker.made.pop(0)
            self._write((block,))
            self.handle(on.Appended(block))

    def _probed(self) -> None:
        self._keep_lease(self.lease.probed(self.cluster.scheduler.now))

    def _keep_lease(self, actions: list[Any]) -> None:
        for action in actions:
            match action:
                case ProbeDisk():
                    self.disk.change(("probe",), _PROBED)
                case RenewLease(sent_at) if self.replica is not None:
                    reply = self._reply(self._renewed, sent_at)
                    note = replica_note(self.replica, self.cluster.scheduler.now)
                    platter = self.disk.platter
                    disk = platter.incarnation, platter.is_rotten
                    self.cluster.coordinator.renew(self.name, self.process, disk, note, reply)
                case LeaseChanged(is_held):
                    self.handle(on.LeaseHeld() if is_held else on.LeaseLost())

    def begin_again(self) -> None:
        """An operator's command: the cluster begins with what is here."""
        coordinator = self.cluster.coordinator
        if self.replica is None or self.is_paused:
            return
        record, notes = (
            coordinator.record,
            [*coordinator.notes.values(), replica_note(self.replica, self.cluster.scheduler.now)],
        )
        known = [max(note.promise.epoch, note.end[0]) for note in notes]
        begun = ShardRecord.beginning(
            SHARD,
            self.replica.known.cluster,
            self.member,
            tuple(self.cluster.nodes),
            max([*known, record.epoch if record is not None else 0]),
        )
        wanted = replace(begun, revision=record.revision if record is not None else 0)
        coordinator.propose(self.name, wanted, record, lambda accepted: None)

    def _renewed(self, sent_at: float) -> None:
        self._keep_lease(self.lease.renewed(sent_at, self.cluster.scheduler.now))

    def _reply(self, call: Callable[..., None], *first: Any) -> Callable[..., None]:
        process = self.process
        return lambda *rest: self._in_turn(process, call, *first, *rest)

    # What goes out

    def _carry_out(self, actions: list[act.Action]) -> None:
        for action in actions:
            if self.replica is None:
                return
            self.cluster.trace(self.name, action)
            self.cluster.faults.tempt(self, action)
            self._doers[type(action)](self, action)

    def _send(self, action: act.Send) -> None:
        self._transmit(action.to, action.message)

    def _ship(self, action: act.Ship) -> None:
        span = range(action.after + 1, action.end + 1)
        blocks = tuple(self._blocks[position] for position in span if position in self._blocks)
        if len(blocks) < len(span):  # recycled meanwhile: the follower asks again
            return
        message = Append(
            SHARD,
            action.epoch,
            action.session,
            action.after,
            action.committed,
            action.stamp,
            blocks,
        )
        self._transmit(action.to, message)

    def _transmit(self, to: str, message: Message) -> None:
        cluster = self.cluster
        cluster.checker.sent(self, message)
        if cluster.uses_wire_format:
            octets = bytearray(encode_message(message))
            read = decode_message(octets, 0, len(octets))
            assert read is not None
            assert read[0] == message
        cluster.network.send(self.name, to, cluster.nodes[to].receive, self.name, message)

    def _begin_epoch(self, action: act.BeginEpoch) -> None:
        if self.broker is None:
            self._append(b"")
        else:
            self.broker.begin_epoch(action.epoch)
            self._hand_over()

    def _append(self, payload: bytes) -> int:
        replica = self.replica
        assert replica is not None
        assert replica.leader is not None
        block = ShardBlock.following(replica.log.chain.end, SHARD, replica.leader.epoch, payload)
        self._write((block,))
        self.handle(on.Appended(block))
        return block.position

    def _store(self, action: act.Store) -> None:
        if self.broker is not None:
            self.broker.store(action.blocks)
        self._write(action.blocks)

    def _write(self, blocks: tuple[ShardBlock, ...]) -> None:
        self.cluster.checker.stored(self, blocks)
        for block in blocks:
            self._blocks[block.position] = block
            self.disk.change(("block", block), on.Durable(block.mark))

    def _truncate(self, action: act.Truncate) -> None:
        erased = [self._blocks.pop(each) for each in sorted(self._blocks) if each > action.position]
        self.cluster.checker.truncated(self, action.position, erased)
        if self.broker is not None:
            self.broker.truncate(action.position)
        self.disk.change(("erase", action.position), on.Truncated(action.position))

    def _save_promise(self, action: act.SavePromise) -> None:
        self.disk.change(("promise", action.promise), on.Promised(action.promise))

    def _copy(self, action: act.CopyCheckpoint) -> None:
        self._copies += 1
        delay = self._randomness.uniform(0.1, 4.0)
        done = self._copy_done
        self.cluster.scheduler.after(delay, self._in_turn, self.process, done, action, self._copies)

    def may_copy(self, other: "Node") -> bool:
        """As the sender of copies asks, when this node leads."""
        leader = self.replica.leader if self.replica is not None else None
        assert leader is not None
        return leader.has_begun or other.member not in leader.counted

    def _copy_done(self, action: act.CopyCheckpoint, number: int) -> None:
        if number != self._copies:
            return
        leader = action.leader
        source = self.cluster.nodes[leader]
        is_open = self.cluster.network.is_open
        reaches = is_open(leader, self.name) and is_open(self.name, leader)
        if (
            source.replica is None
            or source.is_paused
            or source.replica.leader is None
            or not reaches
            or not source.may_copy(self)
        ):
            self.handle(on.CopyFailed())
            return
        rotten = source.disk.platter.rotten
        if own := self.disk.platter.rotten:
            rotten &= own  # what is damaged there comes from here
            if rotten and action.heals:
                self.handle(on.CopyFailed(is_damaged=True))
                return
        checkpoint = source.replica.log.chain.mark(source.applied)
        if self.broker is not None:
            checkpoint = self._copy_data(source, action, number)
            if checkpoint is None:
                return
        assert checkpoint is not None
        self.cluster.checker.copied(self, checkpoint)
        if rotten:
            self.cluster.checker.rotten(self)
        self.disk.swap(checkpoint, rotten)
        if self.replica is None:
            return
        self._blocks.clear()
        self.applied = checkpoint.position
        if self.broker is not None:
            self.broker.kill()
            self._open_broker(Chain(checkpoint))
        self.cluster.trace(self.name, on.Copied(checkpoint))
        self.handle(on.Copied(checkpoint))
        self.handle(on.Damaged(bool(rotten)))

    def _copy_data(self, source: "Node", action: act.CopyCheckpoint, number: int) -> Mark | None:
        """Take the other broker's data; None: not yet, or not at all."""
        assert self.broker is not None
        assert source.broker is not None
        if self._copying is None or self._copying[:2] != (number, source.process):
            self._copying = (number, source.process, source.broker.begin_copy())
        copy = self._copying[2]
        if not copy.taken.done():
            again = (self.process, self._copy_done, action, number)
            self.cluster.scheduler.after(TICK_SECONDS, self._in_turn, *again)
            return None
        self._copying = None
        try:
            copy.taken.result()
            self.broker.take_copy(copy)
        except CopyFailed:
            self.handle(on.CopyFailed())
            return None
        source.broker.end_copy(copy)
        return copy.last

    def _abort_copy(self, action: act.AbortCopy) -> None:
        self._copies += 1

    def _commit(self, action: act.Commit) -> None:
        replica = self.replica
        assert replica is not None
        self.cluster.checker.committed(self, self.applied, action.position, self._blocks)
        self.applied = action.position
        if self.broker is not None:
            self.broker.commit(action.position)
            self.cluster.scheduler.after(0.0, self._in_turn, self.process, self._work)
        while self.waiting and self.waiting[0][0] <= action.position:
            position, payload = self.waiting.pop(0)
            self.cluster.checker.confirmed(self, position, payload)
        if self.applied - replica.log.chain.base.position >= 2 * CHECKPOINT_BLOCKS:
            self._checkpoint()

    def _checkpoint(self) -> None:
        assert self.replica is not None
        position = self.applied - self._randomness.randrange(CHECKPOINT_BLOCKS)
        base = self.replica.log.chain.mark(position)
        if base is None:
            return
        self.disk.change(("checkpoint", self.applied, base))
        for each in [each for each in self._blocks if each <= position]:
            del self._blocks[each]
        self.handle(on.Recycled(position))

    def _propose(self, action: act.Propose) -> None:
        self.cluster.checker.proposed(self, action.record)
        self._requests += 1
        self._open_requests.add(self._requests)
        answered = self._reply(self._proposed, self._requests, action.record.revision)
        self.cluster.coordinator.propose(self.name, action.record, action.seen, answered)
        self.cluster.scheduler.after(COORDINATOR_SECONDS, answered, None)

    def _proposed(self, request: int, revision: int, accepted: ShardRecord | None) -> None:
        if request in self._open_requests:
            self._open_requests.remove(request)
            self.handle(on.Proposed(revision, accepted))

    def _read_record(self, action: act.ReadRecord) -> None:
        assert self.replica is not None
        reply = self._reply(self._record_read, self.replica.known)
        self.cluster.coordinator.read(self.name, reply)

    def _record_read(
        self, known: Promise, record: ShardRecord | None, alive: on.NodesAlive, is_late: bool
    ) -> None:
        is_fresh = not is_late and self.replica is not None and self.replica.known == known
        self.handle(on.RecordSeen(record, is_fresh))
        self.handle(alive)

    def _serve(self, action: act.Serve) -> None:
        self.cluster.checker.served(self, action.epoch)
        if self.broker is not None:
            assert self.cluster.clients is not None
            if self.broker.load(action.epoch):
                self.cluster.checker.tells(self.name, self.broker, self.applied)
                self.broker.serve(self.cluster.clients.declare)
            self.cluster.scheduler.after(0.0, self._in_turn, self.process, self._work)

    def _drained(self, action: act.Drained) -> None:
        self.crash(power=False, restart_after=1.0)

    def _exit(self, action: act.Exit) -> None:
        self.crash(power=False, restart_after=self._randomness.uniform(0.2, 1.0))

    def _nothing(self, action: act.Action) -> None:
        pass

    _doers: ClassVar[dict[type[act.Action], Callable[["Node", Any], None]]] = {
        act.Send: _send,
        act.Ship: _ship,
        act.Store: _store,
        act.BeginEpoch: _begin_epoch,
        act.Truncate: _truncate,
        act.SavePromise: _save_promise,
        act.CopyCheckpoint: _copy,
        act.AbortCopy: _abort_copy,
        act.Commit: _commit,
        act.Propose: _propose,
        act.ReadRecord: _read_record,
        act.Serve: _serve,
        act.StopServing: _nothing,
        act.Drained: _drained,
        act.Exit: _exit,
    }
