"""Logs of queues for readers who know offsets: what is stored, and the stored batches themselves."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from routelog.log_backend import PartitionLog
from routelog.management.calls.answer import Answer, Listing, Stored, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import (
    UNAVAILABLE,
    Refused,
    bad_request,
    not_authorised,
    not_found,
)
from routelog.management.calls.log_tokens import SECONDS_DEFAULT, SECONDS_MAX
from routelog.management.calls.operation import Parameter, Query, answers, lists
from routelog.vhosts import AccessRefused, Queue, ResourceKind, Verb

# One answer covers no more than this, about: it ends soon, so a broker that stops waits for no reader.
NUMBER = Annotated[int, msgspec.Meta(ge=0)]
RANGE: Query = {
    "start": Parameter("the first offset", NUMBER, is_needed=True),
    "end": Parameter("behind the last", NUMBER, is_needed=True),
}
NUMBERED = {"number": Parameter("of the partition: 404 if the queue was declared again", NUMBER)}
STRETCH_BYTES_MAX = 64 * 1024 * 1024


class LogRow(msgspec.Struct):
    """A queue that has a log."""

    queue: str
    partitions: int


class RemoteLog(msgspec.Struct):
    """What of a log is in remote storage."""

    first_offset: int
    end_offset: int
    segments: int
    bytes: int


class StoredLog(msgspec.Struct):
    """What one partition has stored: `segments` as first offset, end offset and bytes, oldest first."""

    first_offset: int
    end_offset: int
    next_offset: int
    segments: Sequence[Sequence[int]]
    number: int
    remote: RemoteLog | None


class FoundOffset(msgspec.Struct):
    """The first offset of a time or later; null while there is none."""

    offset: int | None


class LogToken(msgspec.Struct):
    """A token for the logs of a vhost, and how long it is good for."""

    token: str
    seconds: int


# Of each batch: the first offset, the end offset, and bytes of bodies.


BodySizes = list[list[int]]


class TokenBody(msgspec.Struct):
    """How long a token is wanted for."""

    seconds: int = SECONDS_DEFAULT


@answers(list[str])
def list_vhosts_with_logs(call: Call) -> Answer:
    """Names of the vhosts that the caller may enter."""
    names = (vhost.name for vhost in call.broker.vhosts.all())
    return Value(sorted(name for name in names if call.caller.enters(name)))


@answers(LogToken, body=TokenBody)
async def post_token(call: Call) -> Answer:
    """A token for the vhost; only who has shown a password gets one."""
    body = await call.body(TokenBody)
    name = call.caller.user
    user = None if name is None else call.broker.users.find(name)
    if user is None:
        raise not_authorised("a token is given for a user's password")
    if not 0 < body.seconds <= SECONDS_MAX:
        raise bad_request(f"seconds: expected 1 to {SECONDS_MAX}, not {body.seconds}")
    token = call.tokens.issue(user, call.vhost.name, body.seconds)
    return Value(LogToken(token, body.seconds))


@lists(LogRow, {"queues": Parameter('names as a JSON array, such as ["audit"]')}, has_pages=True)
def list_logs(call: Call) -> Answer:
    """Queues with logs in a vhost: those that `queues` names, or all that the caller may read."""
    named = _named_queues(call)
    if named is None:
        return Listing(call.vhost.queues.values(), lambda queue: _readable_row(call, queue))
    found = [queue for name in sorted(named) if (queue := call.vhost.queues.get(name)) is not None]
    for queue in filter(_has_log, found):
        _authorize(call, queue.name)
    return Listing(found, _row)


def _readable_row(call: Call, queue: Queue) -> LogRow | None:
    try:
        _authorize(call, queue.name)
    except AccessRefused:
        return None
    return _row(queue)


def _row(queue: Queue) -> LogRow | None:
    return LogRow(queue.name, len(queue.partitions)) if _has_log(queue) else None


@answers(StoredLog)
def get_log(call: Call) -> Answer:
    """What one partition has stored: segments as [first offset, end offset, bytes], oldest first."""
    log = _log(call)
    extents = call.broker.logs.extents(log)
    return Value(
        StoredLog(
            first_offset=extents[0].start,
            end_offset=extents[-1].end,
            next_offset=log.visible_end,
            segments=extents,
            number=log.number,
            remote=_remote(log),
        )
    )


@answers(FoundOffset, query={"time": Parameter("microseconds since 1970", int, True)})
async def get_offset(call: Call) -> Answer:
    """The first stored offset of a `time` (us since 1970) or later; null while there is none."""
    return Value(
        FoundOffset(
            await call.broker.logs.offset_at(_log(call), _query_number(call, "time", least=None))
        )
    )


@answers(BodySizes, query=RANGE | {"bytes": Parameter("of bodies; then it ends", NUMBER, True)})
async def get_body_sizes(call: Call) -> Answer:
    """Batches from `start` on, up to `end`: [first offset, end offset, bytes of bodies]."""
    log, (start, end) = _log(call), _range(call)
    bytes_max = _query_number(call, "bytes")
    _check_damage(call, log, start)
    return Value(await call.broker.logs.body_sizes(log, start, end, bytes_max))


@answers(bytes, query=RANGE | NUMBERED)
async def get_records(call: Call) -> Answer:
    """The batches that hold the offsets from `start` on, up to `end`: as many as make one answer."""
    log, (start, end) = _log(call), _range(call)
    if "number" in call.query and _query_number(call, "number") != log.number:
        raise Refused(404, "not_stored", "the queue was deleted, and declared again")
    _check_damage(call, log, start)
    end = min(end, log.blocked_from)
    stretch = await call.broker.logs.find(log, start, end, STRETCH_BYTES_MAX)
    if stretch is None:
        raise Refused(404, "not_stored", f"offsets from {start} to {end - 1} are not in the log")
    return Stored(stretch)


def _remote(log: PartitionLog) -> RemoteLog | None:
    remote = log.remote
    if remote is None:
        return None
    segments = remote.segments
    return RemoteLog(
        first_offset=segments[0].first_offset if segments else remote.end,
        end_offset=remote.end,
        segments=len(segments),
        bytes=remote.bytes,
    )


def _named_queues(call: Call) -> frozenset[str] | None:
    text = call.query.get("queues")
    if text is None:
        return None
    try:
        return frozenset(msgspec.json.decode(text, type=list[str]))
    except msgspec.MsgspecError:
        raise bad_request('queues: expected JSON like ["audit"]') from None


def _has_log(queue: Queue) -> bool:
    return queue.is_stored and not queue.deleted


def _log(call: Call) -> PartitionLog:
    name, number = call.path("queue"), call.path("partition")
    _authorize(call, name)
    queue = call.vhost.queues.get(name)
    if queue is None or queue.deleted:
        raise not_found("queue", name, call.vhost.name)
    if not queue.is_stored:
        raise not_found("log of queue", name, call.vhost.name)
    if not number.isdecimal() or len(number) > 4 or int(number) >= len(queue.partitions):
        raise not_found(f"partition {number} of queue", name, call.vhost.name)
    log = queue.partitions[int(number)].log
    if log.is_behind():
        # Readers of the leader before, or of the run before, know of more: it must not seem lost.
        raise Refused(*UNAVAILABLE, f"the log of queue '{name}' is being stored")
    return log


def _authorize(call: Call, queue: str) -> None:
    call.caller.authorize(call.vhost.name, ResourceKind.QUEUE, queue, Verb.READ)


def _check_damage(call: Call, log: PartitionLog, start: int) -> None:
    if start >= log.blocked_from:
        where = f"queue '{call.path('queue')}' in vhost '{call.vhost.name}'"
        reason = f"partition {call.path('partition')} of {where} is damaged at offset {start}"
        raise Refused(409, "damaged", reason)


def _range(call: Call) -> tuple[int, int]:
    start, end = _query_number(call, "start"), _query_number(call, "end")
    if start >= end:
        raise bad_request(f"start: expected less than end, {end}, not {start}")
    return start, end


def _query_number(call: Call, name: str, *, least: int | None = 0) -> int:
    text = call.query.get(name, "")
    try:
        number = int(text)
        if len(text) > 20 or (least is not None and number < least):
            raise ValueError
    except ValueError:
        raise bad_request(f"{name}: expected a number, not '{text}'") from None
    return number
