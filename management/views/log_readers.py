"""Readers who tell how far they are: the log keeps for them what they have not read, and shows their lag.

A reader is a consumer group of the queue that has no consumers: what it has read, it has settled.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from routelog.management.calls.answer import Answer, Empty, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.message_wanted import log_place
from routelog.management.calls.operation import answers, changes
from routelog.vhosts import (
    GROUP,
    GROUP_EXPIRES,
    ConsumerGroup,
    Queue,
    ResourceKind,
    Verb,
    wanted_group,
)


class ReaderPlace(msgspec.Struct):
    """How far a reader is in one partition; `lapsed` are the offsets [first, end) that it lost to its limit."""

    next_offset: int
    messages_ready: int
    bytes_behind: int
    lapsed: Sequence[int] | None


class PlaceMove(msgspec.Struct):
    """What a move would do in one partition: from `next_offset` to another."""

    next_offset: int
    to: int
    skipped: int
    repeated: int


class ReaderMove(msgspec.Struct):
    """What a move of a reader would do: messages that it skips, and those that it reads once more."""

    skipped: int
    repeated: int
    partitions: list[PlaceMove]


class ReaderRow(msgspec.Struct):
    """A consumer group, or a reader, which is a group without consumers."""

    name: str
    consumers: int
    partitions: list[ReaderPlace]
    hold_bytes: int | None


class ProgressBody(msgspec.Struct):
    """By partition, the next offset that the reader reads; how long the hold outlives reports; its bytes."""

    offsets: dict[str, int]
    expires: str = "7D"
    hold_bytes: int | None = None


@answers(list[ReaderRow])
def list_readers(call: Call) -> Answer:
    """The groups of a queue, by partition: the next offset, and how many messages wait."""
    queue = _queue(call)
    return Value([_row(group) for group in queue.groups.values()])


@changes(ProgressBody)
async def put_reader(call: Call) -> Answer:
    """Note how far a reader is; it is made with the first report, and goes forwards only.

    When its hold has lapsed and what it reads next is gone, the answer names what is missing; it counts.
    """
    body = await call.body(ProgressBody)
    queue = _queue(call)
    offsets = _offsets(queue, body)
    arguments: dict[str, object] = {GROUP: call.path("name"), GROUP_EXPIRES: body.expires}
    options = wanted_group(arguments)
    assert options is not None
    options = replace(options, hold_bytes=_hold_bytes(call, body))
    group, durable = call.vhost.hosted.groups.join(queue, options, "first", call.broker.clock.now())
    if durable is not None:
        await durable
    if group.deleted:
        raise _no_reader(call)
    if group.consumers:
        raise bad_request(f"{group} has consumers, who settle messages themselves")
    group.pass_by(offsets)
    for number, offset in offsets.items():
        _check_kept(group, number, offset)
    return Empty()


class PlaceBody(msgspec.Struct):
    """Where to go on: first, last, next, an offset, -9 for the last nine, a time (ISO 8601), or an age: 1h."""

    to: int | str
    dry_run: bool = False


@answers(ReaderMove, body=PlaceBody, statuses=(200, 204))
async def move_reader(call: Call) -> Answer:
    """Let a group, or a reader, go on elsewhere in the log; nobody may consume by it meanwhile."""
    body = await call.body(PlaceBody)
    group = _group(call)
    place, now = log_place(body.to), call.broker.clock.now()
    located = call.vhost.hosted.groups.located(_queue(call), place, now)
    if located is not None:
        await located
        group = _group(call)
    if body.dry_run:
        return Value(_move(group, call.vhost.hosted.groups.begins(group, place, now)))
    durable = call.vhost.hosted.groups.move(group, place, now)
    if durable is not None:
        await durable
    return Empty()


def _move(group: ConsumerGroup, begins: list[int]) -> ReaderMove:
    """What a move would do: messages that are skipped, and those that are read once more."""
    partitions = []
    for place, begin in zip(group.places, begins, strict=True):
        low, settled, end = place.cursor.low_water, place.cursor.settled, place.log.visible_end
        skipped = begin - low - settled.count_from(low, begin) if begin > low else 0
        partitions.append(
            PlaceMove(
                next_offset=low,
                to=begin,
                skipped=skipped,
                repeated=settled.count_from(begin, end) if begin < end else 0,
            )
        )
    return ReaderMove(
        skipped=sum(each.skipped for each in partitions),
        repeated=sum(each.repeated for each in partitions),
        partitions=partitions,
    )


@changes()
async def delete_reader(call: Call) -> Answer:
    """Hold nothing for a reader any more."""
    group = _group(call)
    if group.consumers:
        raise bad_request(f"{group} has consumers")
    durable = call.vhost.hosted.groups.delete(group)
    if durable is not None:
        await durable
    return Empty()


def _queue(call: Call) -> Queue:
    name = call.path("queue")
    call.caller.authorize(call.vhost.name, ResourceKind.QUEUE, name, Verb.READ)
    queue = call.vhost.queues.get(name)
    if queue is None or queue.deleted:
        raise not_found("queue", name, call.vhost.name)
    return queue


def _group(call: Call) -> ConsumerGroup:
    group = _queue(call).groups.get(call.path("name"))
    if group is None:
        raise _no_reader(call)
    return group


def _no_reader(call: Call) -> Refused:
    return not_found(f"reader '{call.path('name')}' of queue", call.path("queue"), call.vhost.name)


def _offsets(queue: Queue, body: ProgressBody) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, offset in body.offsets.items():
        if not (number.isdecimal() and len(number) < 4 and int(number) < len(queue.partitions)):
            raise bad_request(f"offsets: queue '{queue.name}' has no partition {number}")
        if not 0 <= offset <= queue.partitions[int(number)].log.visible_end:
            raise bad_request(f"offsets: partition {number} has not reached offset {offset}")
        found[int(number)] = offset
    return found


def _hold_bytes(call: Call, body: ProgressBody) -> int:
    most = call.broker.reader_hold_bytes_max
    wanted = most if body.hold_bytes is None else body.hold_bytes
    if not 0 <= wanted <= most:
        raise bad_request(f"hold_bytes: expected 0 to {most}, reader_hold_bytes_max, not {wanted}")
    return wanted


def _check_kept(group: ConsumerGroup, number: int, offset: int) -> None:
    place = group.places[number]
    first = place.log.first_offset
    if place.lapsed is not None and offset < min(place.lapsed[1], first):
        gone = f"offsets {offset} to {first - 1} of partition {number} are not in the log any more"
        held = f"of what retention ends it holds {group.record.hold_bytes} bytes"
        raise Refused(409, "lapsed", f"{gone}: for {group}, {held}")


def _row(group: ConsumerGroup) -> ReaderRow:
    return ReaderRow(
        name=group.record.name,
        consumers=len(group.consumers),
        partitions=[
            ReaderPlace(
                next_offset=each.cursor.low_water,
                messages_ready=each.ready,
                bytes_behind=each.bytes_behind,
                lapsed=each.lapsed,
            )
            for each in group.places
        ],
        hold_bytes=group.record.hold_bytes,
    )
