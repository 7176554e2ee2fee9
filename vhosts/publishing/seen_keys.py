"""Which keys were seen: the memory of a deduplication exchange, bounded in number and time.

A key is seen once the message that has it was stored, and as safely as that one: both are in one block of the
journal. So a crash leaves both or none, and a publisher that was not told, and publishes again, has its message
there once.

On the disk, a key is a record of the exchange's log, its body::

     0  expires  u64 little-endian, microseconds since 1970; 0: never
     8  key      octets; longer ones as their 16-byte hash
"""

import hashlib
import struct
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from routelog.exchanges import DeduplicationOptions, Message, octets, whole_number
from routelog.log_backend import NOTHING, PERSISTENT, Receipt, Records, encode_records
from routelog.vhosts.publishing.exchange_memory import ExchangeLog, Note
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit

KEY_HEADER = "x-deduplication-header"
TTL_HEADER = "x-cache-ttl"
# A longer key is hashed: among ten million, two are alike with a chance of 1 in 10**24.
KEY_BYTES_MAX = 24

_EXPIRES = struct.Struct("<Q")
_MILLISECOND = 1_000  # in microseconds
_NOT_STORED = -1


class SeenKeys:
    """The keys seen last, oldest first.

    Args:
        log: where keys of persistent messages are kept, too; None: they end with the process.
        now: microseconds since 1970.
        limit: of all exchanges of the node.
    """

    is_filter = True

    def __init__(
        self,
        options: DeduplicationOptions,
        log: ExchangeLog | None,
        now: Callable[[], int],
        limit: ExchangeMemoryLimit,
    ) -> None:
        self._options = options
        self._limit = limit
        self._counted = 0  # by the limit
        self.log = log
        self.needed: Receipt = NOTHING
        self._now = now
        self._offsets: OrderedDict[bytes, int] = OrderedDict()  # in the log
        self._expiries: dict[bytes, int] = {}  # of those that expire

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, message: Message) -> Note | None:
        """What is to be remembered of a message; None: it has no key, and is let through."""
        value = message.headers.get(KEY_HEADER)
        if value is None:
            return None
        ttl = whole_number(message.headers.get(TTL_HEADER))
        if ttl is None or ttl < 1:
            ttl = self._options.ttl
        expires = 0 if ttl is None else self._now() + ttl * _MILLISECOND
        return Note(short_key(octets(value)), min(expires, 2**63))

    def knows(self, note: Note) -> bool:
        """Whether the key was seen, and counts still."""
        if note.key not in self._offsets:
            return False
        expires = self._expiries.get(note.key)
        return expires is None or expires > self._now()

    def remember(
        self,
        notes: Sequence[tuple[int, Note]],
        records: Callable[[list[int]], Records],
        *,
        persistent: bool,
    ) -> Callable[[], None]:
        """See `ExchangeMemory`."""
        offset = _NOT_STORED
        if persistent and self.log is not None:
            offset = self.log.append(_encoded([note for _, note in notes], self._now()))
        return partial(self._remember, notes, offset)

    def _remember(self, notes: Sequence[tuple[int, Note]], offset: int) -> None:
        for _, note in notes:
            self._add(note, offset)
            if offset != _NOT_STORED:
                offset += 1
        self._forget()

    async def load(self) -> None:
        """Take what the log has from earlier runs."""
        if self.log is None:
            return
        async for kept in self.log.kept():
            batch, index = kept.batch, kept.index
            body = batch.records.body(index)
            note = Note(bytes(body[_EXPIRES.size :]), *_EXPIRES.unpack_from(body))
            self._add(note, batch.base_offset + index)
        self._forget()

    def _add(self, note: Note, offset: int) -> None:
        self._drop(note.key)
        self._offsets[note.key] = offset
        if note.expires:
            self._expiries[note.key] = note.expires

    def _drop(self, key: bytes) -> None:
        offset = self._offsets.pop(key, _NOT_STORED)
        self._expiries.pop(key, None)
        if offset != _NOT_STORED and self.log is not None:
            self.log.settle(offset, offset + 1)

    def _forget(self) -> None:
        # The oldest, while they are too many or over.
        surplus = max(0, len(self._offsets) - self._options.size)
        for key in list(islice(self._offsets, surplus)):
            self._drop(key)
        self._count()
        for key in list(islice(self._offsets, self._limit.surplus_keys)):
            self._drop(key)
        if self._expiries:
            now = self._now()
            while (
                self._offsets
                and self._expiries.get(key := next(iter(self._offsets)), now + 1) <= now
            ):
                self._drop(key)
        self._count()
        if self.log is not None:
            self.log.release()

    def _count(self) -> None:
        self._limit.keys_grew(len(self._offsets) - self._counted)
        self._counted = len(self._offsets)

    def close(self) -> None:
        """The exchange is gone."""
        self._offsets.clear()
        self._expiries.clear()
        self._count()


def short_key(key: bytes) -> bytes:
    """A key, or its hash when it is long."""
    return key if len(key) <= KEY_BYTES_MAX else hashlib.blake2b(key, digest_size=16).digest()


def _encoded(notes: Sequence[Note], now: int) -> Records:
    source, rows = bytearray(), array("i")
    for note in notes:
        body = _EXPIRES.pack(note.expires) + note.key
        rows.extend((0, 0, 0, 0, len(source), len(body)))
        source += body
    view, table = memoryview(source), memoryview(rows)
    records: Records = encode_records(view, table, None, len(notes), b"", b"", PERSISTENT, now)
    return records
