"""The bytes of a session between a front and the leader of a shard. All integers are little-endian::

     0  length     u32  of the whole message
     4  kind       u8
     5  flags      u8
     6  partition  u16  index in its queue
     8  subject    u32  a queue or a consumer: numbers that the front gives, of one sequence
    12  zero       u32
    16  number     u64
    24  first      u64
    32  count      u64
    40  content

    kind                subject   number       first         count          flags, content
    1  OPENED           ←         epoch        position
    2  QUEUE            → queue   partition                                 msgpack: vhost, name
    3  PUBLISH          → queue   batch                                     WAITED, ASKED, PART; a batch
    4  CONFIRM          ←         written      durable
    5  REFUSED          ←         batch                      refused        count * u32: indexes in the batch
    6  CREDIT           → consumer bytes       messages
    7  DELIVER          ← consumer             offset        messages       REDELIVERED, COUNTED; [count * u32,]
                                                                            a batch
    8  SETTLE           → source               offset        messages       a `Reason`, PART
    9  RETURN           → source               offset        messages       a `ReturnReason`, MORE
   10  ENDED            ← consumer                                          msgpack: error, or nil: deleted
   11  CALL             → queue   call                                      msgpack: [method, argument ...]
   12  ANSWER           ←         call                                      FAILED; msgpack: value, or error
   13  APPLY            ←         position
   14  APPLIED          →         position
   15  PRESSURE         ←                                                   msgpack: why publishers are to wait
   16  BEAT             ↔         any                                       ANSWERED
   17  ROUTED           ←         batch        refused        returned      u32s: indexes in the batch
   18  REPLY            ↔         octets                                    an address of so many, and a batch
   19  TRANSACTION      →         call
   20  ASK              ←         question                                  GIVEN_UP; what is asked, if new
   21  TOLD             →         question                                  FAILED, MORE; a piece of the answer
   22  COUNTS           ↔         nodes                                     msgpack: see `count_exchange.py`
   23  TRACED           ←                                                   msgpack: names of vhosts
   24  RECORDS          ←         position                                 msgpack: [key, value, ...]
   25  SNAPSHOT         ←         position
   26  CHANGES          ←         position                                 msgpack: [key, value or nil, ...]
   27  OPEN             →         version                                  the front's name

What is not drawn is zero. OPENED is the first message: the leader takes the session; what was defined up to
`position` has to be known before the front routes. QUEUE comes before what names its subject: `partition` is
the number of the queue's first partition, so that a queue declared again is another one. An exchange has its
`held_name`, and partition 0: the leader routes what comes for it, and ROUTED says, before its CONFIRM, what of
a batch queues refused, and what no queue gets. Of a batch for a queue, with ASKED, REFUSED says it; without,
nothing is refused, as it was sent before its front knew of a limit. REPLY is a direct reply to a client of
another node. The batches of a session are numbered from 1. CONFIRM: each batch up to `durable` that was not
refused is what its queue promises; each up to `written` is, as far as that does not take the disk. CREDIT
counts all that the front has handed on to its client since the consumer began. SETTLE and RETURN have a
consumer as their source, or a queue for what `get` gave. A RETURN with MORE is followed by another one of the
same partition, before which nothing of it is delivered. A call of number 0 is not answered. In batches, offset
and epoch are zero, and the checksum of the payload is what the front, or the log, knows; the time of what is
published is the leader's. A BEAT with a number is answered at once, with the same number and ANSWERED.

A front that has no journal is fed the definitions, as records of the metadata: RECORDS are all that there are,
SNAPSHOT ends them, CHANGES come behind that, or between them. Then `position` is the feed's. Such a front is
another process of the leader's node, and introduces itself by OPEN; nodes have introductions of their own.

PUBLISH and SETTLE with PART, without a number, are parts of the transaction that the next TRANSACTION ends: the
leader does nothing before, and then all of it, as one block of its journal, or nothing. The ANSWER is nil when
that is durable. With an error nothing is done, and what it would have settled is back in the queues.

ASK is about the front's clients. Of an answer in several pieces, each but the last is TOLD with MORE, and the
next one is made when the same number is asked again, without content: see `node_questions.py`. TRACED: the
front copies the messages of its clients in these vhosts to the firehose, and in no other one.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from routelog.log_backend import CorruptBatch, Octets, RecordBatch, Records, decode_batch

VERSION = 1  # of the messages; nodes agree on it when they are introduced
OFFSET_END = 1 << 62  # of what is delivered: compiled code has signed numbers
MESSAGE_BYTES_MAX = 704 * 1024 * 1024  # the largest batch, and the counts of its deliveries

# Unsent bytes above which an end sends nothing that can wait, or be lost: who does not read costs no more.
OUTBOX_BYTES_MAX = 16 * 1024 * 1024
# A view of less would keep a buffer that has much else.
COPIED_BYTES_MAX = 16 * 1024

HEAD_BYTES = 40
_HEAD = struct.Struct("<IBBHIxxxxQQQ")


class BadSessionMessage(Exception):
    """The peer's bytes are no message of a session; the session ends."""


class Kind(IntEnum):
    """What a message is."""

    OPENED = 1
    QUEUE = 2
    PUBLISH = 3
    CONFIRM = 4
    REFUSED = 5
    CREDIT = 6
    DELIVER = 7
    SETTLE = 8
    RETURN = 9
    ENDED = 10
    CALL = 11
    ANSWER = 12
    APPLY = 13
    APPLIED = 14
    PRESSURE = 15
    BEAT = 16
    ROUTED = 17
    REPLY = 18
    TRANSACTION = 19
    ASK = 20
    TOLD = 21
    COUNTS = 22
    TRACED = 23
    RECORDS = 24
    SNAPSHOT = 25
    CHANGES = 26
    OPEN = 27


_KINDS = {int(kind): kind for kind in Kind}

# Flags
WAITED = 1  # PUBLISH: somebody waits until it is as safe as its queue promises
ASKED = 2  # PUBLISH: the front learns what is refused
PART = 64  # PUBLISH, SETTLE: of a transaction
REDELIVERED = 1  # DELIVER
COUNTED = 2  # DELIVER: with how often each message was delivered again
FAILED = 1  # ANSWER, TOLD: the content is an error
MORE = 128  # RETURN, TOLD: another one follows
GIVEN_UP = 1  # ASK: nobody waits for the rest any more
ANSWERED = 1  # BEAT: the other end has got this number


class SessionMessage(msgspec.Struct, frozen=True, gc=False):
    """A message of a session; see the drawing."""

    kind: Kind
    flags: int = 0
    partition: int = 0
    subject: int = 0
    number: int = 0
    first: int = 0
    count: int = 0
    content: Octets = b""


def message_pieces(message: SessionMessage) -> list[Octets]:
    """The bytes of a message, in pieces: what is large is not copied."""
    return _pieces(message, (message.content,) if message.content else ())


def batch_pieces(message: SessionMessage, records: Records) -> list[Octets]:
    """The bytes of a message whose content ends with a batch, in pieces."""
    header = RecordBatch(records, 0, 0).header()
    return _pieces(message, (message.content, header, records.payload))


def _pieces(message: SessionMessage, content: Sequence[Octets]) -> list[Octets]:
    length = HEAD_BYTES + sum(map(len, content))
    head = _HEAD.pack(
        length,
        message.kind,
        message.flags,
        message.partition,
        message.subject,
        message.number,
        message.first,
        message.count,
    )
    return [head, *content]


def message_bytes(buffer: Octets, at: int = 0) -> int:
    """How long the message at a place is, by its first four bytes.

    Raises:
        BadSessionMessage: no message is so long, or so short.
    """
    size = int.from_bytes(buffer[at : at + 4], "little")
    if not HEAD_BYTES <= size <= MESSAGE_BYTES_MAX:
        raise BadSessionMessage(f"a message of {size:,} bytes")
    return size


def decode_message(buffer: bytearray, at: int, end: int) -> tuple[SessionMessage, int] | None:
    """Read the message that begins at a place of a buffer, which is filled up to `end`.

    Returns:
        The message, and how many bytes it took; its content is a copy of small, a view of large content, and
        writable, as the kernel wants that of records. None: it is not there in full.

    Raises:
        BadSessionMessage: the peer's fault.
    """
    if end - at < 4:
        return None
    size = message_bytes(buffer, at)
    if end - at < size:
        return None
    _, code, flags, partition, subject, number, first, count = _HEAD.unpack_from(buffer, at)
    kind = _KINDS.get(code)
    if kind is None:
        raise BadSessionMessage(f"kind {code}")
    content: Octets = b""
    if size > COPIED_BYTES_MAX:
        content = memoryview(buffer)[at + HEAD_BYTES : at + size]
    elif size > HEAD_BYTES:
        content = buffer[at + HEAD_BYTES : at + size]
    return SessionMessage(kind, flags, partition, subject, number, first, count, content), size


def reply_pieces(address: bytes, records: Records) -> list[Octets]:
    """A direct reply, in pieces."""
    return batch_pieces(SessionMessage(Kind.REPLY, number=len(address), content=address), records)


def reply_of(message: SessionMessage) -> tuple[bytes, Records]:
    """The address and the messages of a direct reply.

    Raises:
        BadSessionMessage: there is no batch behind the address.
    """
    view = memoryview(message.content)
    return bytes(view[: message.number]), records_of(view[message.number :])


def records_of(content: Octets, time: int | None = None) -> Records:
    """The batch that content is.

    Args:
        time: when it comes in, us since 1970; None: it keeps what it says.

    Raises:
        BadSessionMessage: it is none, or damaged.
    """
    try:
        records: Records = decode_batch(content, 0).records
    except (CorruptBatch, struct.error) as error:
        raise BadSessionMessage(f"a batch: {error}") from None
    if time is not None:
        records.time = records.last_time = time
    return records


def value_in(content: Octets, kind: Any = Any) -> Any:
    """The value of msgpack that content is.

    Raises:
        BadSessionMessage: it is none, or not of this kind.
    """
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSessionMessage(f"a value: {error}") from None
