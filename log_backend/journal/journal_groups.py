# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""What gathers for the journal: the entries of its next blocks, as the bytes that they will be."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import cython

from routelog.log_backend.journal.journal_entry import (
    BATCH_AGAIN_BYTES,
    ENTRY_HEADER_BYTES,
    JournalEntry,
    put_batch_again_entry,
    put_batch_entry,
)
from routelog.log_backend.records.checksum import crc32c_between
from routelog.log_backend.records.gathering import Gathering
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    Octets,
    RecordBatch,
    Records,
    new_buffer,
    put_u32,
    put_u64,
    put_zeros,
)

# Where a group can be cut: bytes and count of its entries, and the bytes pending in all of them.
GroupEnd = tuple[int, int, int]

# Of a block: see `journal_block.py`, which reads them.
MAGIC = b"RLJ2"
BLOCK_ALIGNMENT = 4_096
CHAIN_AT = 48
BLOCK_HEADER_BYTES = 72

COMMIT_BYTES_MAX = 4 * 1024 * 1024  # of one block: about 10 ms of a fast disk
PENDING_BYTES_HIGH = 32 * 1024 * 1024  # publishers stop here, and go on at half of it

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_MAGIC = cython.declare(cython.uint, int.from_bytes(MAGIC, "little"))
_BLOCK_ALIGNMENT = cython.declare(cython.Py_ssize_t, BLOCK_ALIGNMENT)
_CHAIN_AT = cython.declare(cython.Py_ssize_t, CHAIN_AT)
_BLOCK_HEADER_BYTES = cython.declare(cython.Py_ssize_t, BLOCK_HEADER_BYTES)
_BATCH_AGAIN_BYTES = cython.declare(cython.Py_ssize_t, BATCH_AGAIN_BYTES)
_BATCH_HEADERS_BYTES = cython.declare(cython.Py_ssize_t, ENTRY_HEADER_BYTES + HEADER_BYTES)


@cython.final
@cython.cclass
class JournalGroup:
    """The entries of one future block.

    Attributes:
        content: their bytes.
        epoch: of the leader that made the block; 0: of this node, which sets it when the block is written.
        checksum: of the block, in the chain of blocks; `block` sets it. Where another node made the block, it
            is known before.
        count: entries.
        first_offsets: by number of a partition, where what it has in the block begins in its log.
        moved_offsets: the same of what moved there.
        records: of its last batch: another batch that has them, too, is added without. None: there is none, or
            it may be taken back.
        waited: somebody waits for one of them.
        synced: one of them has to survive a power cut.
    """

    __slots__ = (
        "checksum",
        "content",
        "count",
        "epoch",
        "first_offsets",
        "moved_offsets",
        "position",
        "records",
        "synced",
        "waited",
    )

    def __init__(self, position: int) -> None:
        self.position = position
        self.epoch = self.checksum = 0
        self.content = Gathering()
        self.count = 0
        self.first_offsets: dict[int, int] = {}
        self.moved_offsets: dict[int, int] = {}
        self.records: Records | None = None
        self.waited = False
        self.synced = False

    @property
    def bytes(self) -> int:
        """Of all entries."""
        return self.content.bytes

    @cython.locals(
        number=cython.ulonglong,
        salt=cython.ulonglong,
        first=cython.longlong,
        committed=cython.longlong,
        shard=cython.uint,
        epoch=cython.ulonglong,
        previous=cython.uint,
        length=cython.Py_ssize_t,
        size=cython.Py_ssize_t,
        block=bytearray,
    )
    def block(
        self,
        number: int,
        salt: int,
        first: int,
        committed: int,
        shard: int,
        epoch: int,
        previous: int,
    ) -> bytearray:
        """The bytes of its block, padded with zeros: see `journal_block.py`.

        Args:
            number, salt: of the journal file.
            first: position of the first block of the file.
            committed: position that the block calls committed.
            shard, epoch, previous: see `journal_chain.py`.
        """
        length = _BLOCK_HEADER_BYTES + self.content.bytes
        size = length + -length % _BLOCK_ALIGNMENT
        block = new_buffer(size)
        self._put_file(block, number, salt, first, committed)
        self._put_chained(block, length, shard, epoch, previous)
        self.content.copy_to(block, _BLOCK_HEADER_BYTES)
        put_zeros(block, length)
        self.checksum = crc32c_between(block, _CHAIN_AT, length)
        self._seal(block)
        return block

    def given_block(
        self,
        number: int,
        salt: int,
        first: int,
        committed: int,
        shard: int,
        epoch: int,
        previous: int,
    ) -> list[Octets]:
        """As `block`, of one whose checksum is known: in pieces, so that its entries are not copied."""
        length = BLOCK_HEADER_BYTES + self.content.bytes
        head = new_buffer(BLOCK_HEADER_BYTES)
        self._put_file(head, number, salt, first, committed)
        self._put_chained(head, length, shard, epoch, previous)
        self._seal(head)
        return [head, *self.content.buffers(), bytes(-length % BLOCK_ALIGNMENT)]

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(
        head=bytearray,
        number=cython.ulonglong,
        salt=cython.ulonglong,
        first=cython.longlong,
        committed=cython.longlong,
    )
    def _put_file(self, head: bytearray, number: int, salt: int, first: int, committed: int) -> int:
        put_u64(head, 8, number)
        put_u64(head, 16, salt)
        put_u64(head, 24, first)
        put_u64(head, 32, committed)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(
        head=bytearray,
        length=cython.Py_ssize_t,
        shard=cython.uint,
        epoch=cython.ulonglong,
        previous=cython.uint,
    )
    def _put_chained(
        self, head: bytearray, length: int, shard: int, epoch: int, previous: int
    ) -> int:
        put_u32(head, 0, _MAGIC)
        put_u32(head, 40, length)
        put_u32(head, _CHAIN_AT, shard)
        put_u64(head, _CHAIN_AT + 4, epoch)
        put_u64(head, _CHAIN_AT + 12, self.position)
        put_u32(head, _CHAIN_AT + 20, previous)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(head=bytearray)
    def _seal(self, head: bytearray) -> int:
        put_u32(head, 44, self.checksum)
        put_u32(head, 4, crc32c_between(head, 8, _CHAIN_AT))
        return 0


@cython.final
@cython.cclass
class JournalGroups:
    """The groups that wait for the disk, in order; there is always one, which grows.

    Attributes:
        failure: set when the disk failed: nothing is added any more.
        promised: position of the last block that is all that its entries ask for: written, and synced if one
            of them has to survive a power cut; in a cluster, committed. Readers of logs see what is in blocks
            up to here, and segments hold nothing else.
        gathers: entries are taken; a follower is only given whole blocks.
        is_replicated: the journal is a replica's.
        is_held: the group that grows is to wait, and is not followed by another, however large it is.
        pending_bytes: of all groups, and of the blocks above `promised` that are being written, or were.

    Args:
        on_entry: called when a group gets its first entry (False), or its first that somebody waits for
            (True).
        on_pressure: called with True when too much waits for the disk, and with False at half.
    """

    __slots__ = (
        "_groups",
        "_last",
        "_on_entry",
        "_on_pressure",
        "_pressed",
        "_together",
        "_writing",
        "failure",
        "gathers",
        "is_held",
        "is_replicated",
        "pending_bytes",
        "promised",
    )

    def __init__(
        self, on_entry: Callable[[bool], None], on_pressure: Callable[[bool], None]
    ) -> None:
        self.failure: Exception | None = None
        self.gathers = False
        self.is_held = False
        self.is_replicated = False
        self.pending_bytes = 0
        self.promised = 0
        self._groups: list[JournalGroup] = []
        self._on_entry = on_entry
        self._on_pressure = on_pressure
        self._pressed = False
        self._together = False
        self._writing: list[JournalGroup] = []  # those that were taken, and are not promised

    def start(self, position: int) -> None:
        """Begin to gather for the block of a position: all before it are durable."""
        self.promised = position - 1
        self._begin(position)

    def lead(self, position: int, epoch: int) -> None:
        """Begin an epoch with an empty block of a position, and to gather for the next one."""
        self.add_block(position, epoch, b"", 0, synced=True)
        self._begin(position + 1)

    def add_block(
        self, position: int, epoch: int, payload: Octets, checksum: int, *, synced: bool
    ) -> None:
        """Add a block as it is.

        Args:
            payload: kept, not copied, where it is large.
            checksum: 0: of one that is made here.
        """
        group = JournalGroup(position)
        group.epoch = epoch
        group.checksum = checksum
        group.content.add(payload)
        group.waited = True
        group.synced = synced
        self.pending_bytes += len(payload)
        self._groups.append(group)

    def _begin(self, position: int) -> None:
        self.gathers = True
        self._last = JournalGroup(position)
        self._groups.append(self._last)

    @property
    def started(self) -> bool:
        """There is a group."""
        return bool(self._groups)

    @property
    def is_idle(self) -> bool:
        """Nothing has gathered, and all that was written is promised."""
        return not (self._writing or self.has_more)

    @property
    def has_more(self) -> bool:
        """There is a block to be written."""
        return bool(self._groups) and (self.first.count > 0 or self.first.epoch > 0)

    @property
    def first(self) -> JournalGroup:
        """The group to be written next."""
        return self._groups[0]

    @cython.locals(waited=cython.bint, synced=cython.bint, group=JournalGroup)
    def append(self, entry: JournalEntry, waited: bool, synced: bool) -> int:
        """Add an entry to the last group; see `Journal.append`."""
        if isinstance(entry.change, RecordBatch):
            return self.append_batch(entry.partition, entry.change, waited, synced)
        octets = entry.encode()
        group = self._group_for(len(octets))
        group.content.add(octets)
        return self._added(group, len(octets), waited, synced)

    @cython.locals(
        count=cython.Py_ssize_t, waited=cython.bint, synced=cython.bint, group=JournalGroup
    )
    def append_encoded(self, octets: Octets, count: int, waited: bool, synced: bool) -> int:
        """Add the bytes of so many entries of any partitions, none of a batch, as `append`; they are kept."""
        group = self._group_for(len(octets))
        group.content.add(octets)
        group.count += count - 1
        return self._added(group, len(octets), waited, synced)

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(
        partition=cython.ulonglong,
        batch=RecordBatch,
        records=Records,
        waited=cython.bint,
        synced=cython.bint,
        group=JournalGroup,
        size=cython.Py_ssize_t,
    )
    def append_batch(self, partition: int, batch: RecordBatch, waited: bool, synced: bool) -> int:
        """Add the entry of a partition's batch, as `append`; without records that the last batch has, too."""
        records = batch.records
        size = _BATCH_AGAIN_BYTES
        group = self._group_for(size)
        if group.records is records:
            put_batch_again_entry(group.content, partition, batch)
        else:
            size = _BATCH_HEADERS_BYTES + len(records.payload)
            group = self._group_for(size)
            put_batch_entry(group.content, partition, batch)
            group.records = records
        return self._added(group, size, waited, synced)

    @cython.cfunc
    @cython.returns(JournalGroup)
    @cython.locals(size=cython.Py_ssize_t, group=JournalGroup)
    def _group_for(self, size: int) -> JournalGroup:
        if self.failure is not None:
            raise self.failure
        group = self._growing()
        if self._together or self.is_held or not group.count:
            return group
        if group.content.bytes + size > COMMIT_BYTES_MAX:
            group = self._follow()
        return group

    @cython.cfunc
    @cython.returns(JournalGroup)
    def _growing(self) -> JournalGroup:
        if not self.gathers:
            # Compiled, None would be taken for a group.
            raise RuntimeError("the journal has not started")
        return self._last

    @cython.cfunc
    @cython.returns(JournalGroup)
    def _follow(self) -> JournalGroup:
        self._last = JournalGroup(self._last.position + 1)
        self._groups.append(self._last)
        return self._last

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(
        group=JournalGroup,
        size=cython.Py_ssize_t,
        waited=cython.bint,
        synced=cython.bint,
        is_news=cython.bint,
    )
    def _added(self, group: JournalGroup, size: int, waited: bool, synced: bool) -> int:
        is_news = not group.count or (waited and not group.waited)
        group.count += 1
        group.synced |= synced
        group.waited |= waited
        self.pending_bytes += size
        if is_news:
            self._on_entry(waited)
        if not self._pressed and self.pending_bytes > PENDING_BYTES_HIGH:
            self._pressed = True
            self._on_pressure(True)
        return group.position

    @cython.ccall
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(partition=cython.ulonglong, offset=cython.longlong)
    def hide(self, partition: int, offset: int) -> int:
        """What a partition has from an offset on waits for the block that the last entry joined."""
        self._last.first_offsets[partition] = offset
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(partition=cython.ulonglong, offset=cython.longlong)
    def withhold(self, partition: int, offset: int) -> int:
        """What moved to a partition, from an offset on, waits for the block that the last entry joined."""
        self._last.moved_offsets[partition] = offset
        return 0

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(partition=cython.ulonglong, end=cython.longlong, group=JournalGroup)
    def first_moved(self, partition: int, end: int) -> int:
        """The first offset below an end that moved to a partition by a block above `promised`; else the end."""
        for groups in (self._writing, self._groups):
            for group in groups:
                offset = group.moved_offsets.get(partition)
                if offset is not None:
                    return min(offset, end)
        return end

    @cython.locals(partition=cython.ulonglong, group=JournalGroup)
    def hiding(self, partition: int) -> JournalGroup | None:
        """The first of the groups above `promised` that something of a partition waits for."""
        for group in self._writing:
            if partition in group.first_offsets:
                return group
        for group in self._groups:
            if partition in group.first_offsets:
                return group
        return None

    def hasten(self, group: JournalGroup) -> None:
        """Somebody waits for a group that he has added nothing to."""
        if not group.waited:
            group.waited = True
            self._on_entry(True)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is appended meanwhile is one block, however large; once more within, the same one."""
        outer = self._together
        self._together = True
        try:
            yield
        finally:
            self._together = outer

    def cut_point(self) -> GroupEnd:
        """Where the group that grows ends; no batch behind it has its records from one before it."""
        group = self._growing()
        group.records = None
        return group.content.bytes, group.count, self.pending_bytes

    def take_back(self, steps: Sequence[tuple[GroupEnd, GroupEnd]]) -> None:
        """What the group that grows was given between some cut points, in their order, is not in it any more.

        Half an entry is gone with the rest.
        """
        group = self._growing()
        group.content.cut([(begin[0], end[0]) for begin, end in steps])
        for begin, end in steps:
            group.count -= end[1] - begin[1]
            self._less_pending(end[2] - begin[2])

    def let_go(self) -> None:
        """The group that was held is complete: what comes now is in another one."""
        self.is_held = False
        if self._growing().count:
            self._follow()

    @property
    def is_first_held(self) -> bool:
        """The group to be written next is to wait."""
        return self.is_held and self._groups[0] is self._last

    @property
    def last(self) -> JournalGroup:
        """The group that grows."""
        return self._last

    def take_first(self) -> JournalGroup:
        """Remove the first group: it is being written."""
        group = self._groups.pop(0)
        self._writing.append(group)
        if self.gathers and not self._groups:
            self._begin(group.position + 1)
        return group

    def put_back(self, group: JournalGroup) -> None:
        """A group was not written: it is the first one again."""
        self._writing.remove(group)
        self._groups.insert(0, group)

    def promise(self, position: int) -> None:
        """The blocks up to a position are what their entries ask for."""
        while self._writing and self._writing[0].position <= position:
            self._less_pending(self._writing.pop(0).bytes)
        self.promised = position

    def cut(self, position: int) -> JournalGroup | None:
        """Forget the blocks behind a position that were not taken; returns the block there, if it is here."""
        for group in [each for each in self._groups if each.position > position]:
            self._groups.remove(group)
            self._less_pending(group.bytes)
        found = (each for each in self._groups + self._writing if each.position == position)
        return next(found, None)

    def erased(self, position: int) -> None:
        """The blocks behind a position that were taken are not there any more."""
        for group in [each for each in self._writing if each.position > position]:
            self._writing.remove(group)
            self._less_pending(group.bytes)

    def _less_pending(self, size: int) -> None:
        self.pending_bytes -= size
        if self._pressed and self.pending_bytes < PENDING_BYTES_HIGH // 2:
            self._pressed = False
            self._on_pressure(False)
