"""The messages in a queue: looked at without touching them, moved, sent back, published again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from routelog.management.calls.answer import Answer, Pieces, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.message_rows import (
    BrowsedMessageRow,
    browsed_row,
    message_rows,
    page_of_rows,
)
from routelog.management.calls.message_wanted import message_filter, number_of, places_of
from routelog.management.calls.operation import Parameter, answers
from routelog.management.views.bindings import exchange_name
from routelog.vhosts import (
    AccessRefused,
    Destination,
    MessageFilter,
    MessageSearch,
    MessageState,
    MovedMessage,
    MoveMode,
    MoveOrder,
    MoveReport,
    Place,
    Queue,
    ResourceKind,
    ToExchange,
    ToOrigin,
    ToQueue,
    Verb,
    nowhere,
)

# What says which messages: these of the parameters of GET messages.
FILTER_KEYS = (
    "offset",
    "time",
    "until",
    "partition",
    "state",
    "key",
    "id",
    "correlation_id",
    "header",
    "text",
    "filter",
)
COUNT = 100
COUNT_MAX = 1_000  # of one page
TRUNCATE_BYTES = 50_000  # of a body, that are shown unless more are asked for
LIMIT = 10_000
LIMIT_MAX = 100_000  # messages of one request; the answer says where to go on
NAMED_MAX = 10_000  # messages that one request names
KEY_BYTES_MAX = 255  # of a routing key: AMQP 0-9-1, 4.2.5.3
BODY_BYTES_MAX = 512 * 1024 * 1024  # of the largest message


States = Literal["ready", "unacked", "settled", "all"]


class BrowsedPage(msgspec.Struct):
    """Messages, and where to go on; null: that is all."""

    items: list[BrowsedMessageRow]
    next: str | None
    end: str
    looked_at: int
    unreadable: list[str]


class MovedSample(msgspec.Struct):
    """One of the messages that were moved."""

    partition: int
    offset: int
    to: list[str]
    exchange: str
    routing_key: str


class MoveAnswer(msgspec.Struct):
    """What became of messages; `skipped` counts those that stay, by reason."""

    count: int
    skipped: dict[str, int]
    looked_at: int
    next: str | None
    stopped: str | None
    dry_run: bool
    sample: list[MovedSample]


class Target(msgspec.Struct):
    """A queue, or an exchange with a routing key; without one, each message keeps its own."""

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


class SelectionBody(msgspec.Struct, kw_only=True):
    """Which messages, and how many at most.

    Attributes:
        filter: as the query of GET messages has it; `next` of the last answer is its `offset`.
    """

    filter: dict[str, str | int] | None = None
    limit: int = LIMIT
    dry_run: bool = False


class MoveBody(SelectionBody):
    """What to do with messages, and where they go.

    Attributes:
        messages: as partition:offset; or a filter says which, {} means all.
    """

    mode: Literal["move", "copy", "delete"] = "move"
    messages: list[str] | None = None
    to: Target | None = None


class ReplayBody(SelectionBody):
    """Where messages are published again that the log holds."""

    to: Target


@answers(
    BrowsedPage,
    query={
        "offset": Parameter(
            "to begin with, in each partition; -9: the last nine; first, last, next; or a page's `next`"
        ),
        "time": Parameter("to begin with instead, ISO 8601 or an age such as 1h"),
        "until": Parameter("what came before, likewise"),
        "partition": Parameter("only this one", int),
        "state": Parameter("else those that are not settled", States),
        "key": Parameter("their routing key"),
        "id": Parameter("their property message_id"),
        "correlation_id": Parameter("their property correlation_id"),
        "header": Parameter("a header and its value, as name=value"),
        "text": Parameter("what their bodies hold"),
        "filter": Parameter("a condition of SQL, as x-filter has it"),
        "count": Parameter("at most so many", Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]),
        "truncate": Parameter("bytes of a body that are shown", Annotated[int, msgspec.Meta(ge=0)]),
        "encoding": Parameter("of bodies", Literal["auto", "base64"]),
    },
)
async def browse_messages(call: Call) -> Answer:
    """Messages of a queue as they lie there, ready and unacknowledged: nothing becomes of them."""
    queue = readable_queue(call)
    count = number_of(call.query, "count", COUNT, COUNT_MAX, least=1)
    bytes_max = number_of(call.query, "truncate", TRUNCATE_BYTES, BODY_BYTES_MAX)
    encoding = call.query.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request(f"encoding is auto or base64, not '{encoding}'")
    now = call.broker.clock.now()
    wanted = await message_filter(call.query, now)
    search = MessageSearch(queue, wanted, places_of(queue, call.query, now))
    ends = [each.log.visible_end for each in queue.partitions]
    found = await call.broker.messages.browse(queue, search, count)
    for each in found:  # some may have come meanwhile
        ends[each.partition] = max(ends[each.partition], each.offset + 1)
    rows = ((browsed_row(each), each.body) for each in found)
    more = {
        "next": ",".join(map(str, search.places)) or None,
        "end": ",".join(f"{at}:{end}" for at, end in enumerate(ends)),
        "looked_at": search.looked_at,
        "unreadable": [str(each) for each in search.unreadable],
    }
    pieces = message_rows(rows, as_text=encoding == "auto", bytes_max=bytes_max)
    return Pieces(page_of_rows(pieces, more))


def readable_queue(call: Call) -> Queue:
    """The queue that the path names, which the caller may read."""
    return named_queue(call, call.path("name"))


def named_queue(call: Call, name: str) -> Queue:
    """A queue of the vhost, which the caller may read."""
    queue = call.vhost.queues.get(name)
    if queue is None or queue.deleted:
        raise not_found("queue", name, call.vhost.name)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.READ)
    queue.check_access(call)
    return queue


@answers(MoveAnswer, body=MoveBody)
async def move_messages(call: Call) -> Answer:
    """Move, copy or delete messages of a queue, each whole or not at all."""
    body = await call.body(MoveBody)
    queue, mode = readable_queue(call), MoveMode(body.mode)
    if queue.is_stream and mode is not MoveMode.COPY:
        raise bad_request(f"stream '{queue.name}' keeps its messages: copy them")
    if (body.to is None) != (mode is MoveMode.DELETE):
        raise bad_request("`to` says where messages go; those that are deleted go nowhere")
    if (body.messages is None) == (body.filter is None):
        raise bad_request("`messages` or `filter` says which messages; an empty filter: all")
    destination = nowhere if body.to is None else destination_of(call, queue, body.to, mode)
    search = await search_of(call, queue, body, body.messages)
    report = await carry_out(call, queue, search, body, mode, destination, target_name(body.to))
    return _answer(report, body)


@answers(MoveAnswer, body=SelectionBody)
async def redrive_messages(call: Call) -> Answer:
    """Send dead letters back to the queues in which they died."""
    body = await call.body(SelectionBody)
    queue = readable_queue(call)
    if queue.is_stream:
        raise bad_request(f"stream '{queue.name}' keeps its messages: copy them")
    call.caller.authorize(queue.vhost, ResourceKind.EXCHANGE, "", Verb.WRITE)
    destination = ToOrigin(queue, call.vhost.queues)
    search = await search_of(call, queue, body)
    where = "the queues they died in"
    report = await carry_out(call, queue, search, body, MoveMode.MOVE, destination, where)
    return _answer(report, body)


@answers(MoveAnswer, body=ReplayBody)
async def replay_messages(call: Call) -> Answer:
    """Publish again what the log of a queue holds of a time or of offsets, consumed or not."""
    body = await call.body(ReplayBody)
    queue = readable_queue(call)
    destination = destination_of(call, queue, body.to, MoveMode.COPY)
    body.filter = {"state": "all", **(body.filter or {})}
    search = await search_of(call, queue, body)
    said = target_name(body.to)
    report = await carry_out(call, queue, search, body, MoveMode.COPY, destination, said)
    return _answer(report, body)


@answers(MoveAnswer, body=SelectionBody)
async def restore_messages(call: Call) -> Answer:
    """Put back at the end of a queue what its last purge dropped, as far as its log keeps it."""
    body = await call.body(SelectionBody)
    queue = readable_queue(call)
    if queue.partitions[0].log.retention is None:
        raise bad_request(f"queue '{queue.name}' keeps no log: what was purged is gone")
    call.caller.authorize(queue.vhost, ResourceKind.EXCHANGE, "", Verb.WRITE)
    purged = [Place(at, *each) for at, part in enumerate(queue.partitions) for each in part.purged]
    if not purged:
        raise bad_request(f"queue '{queue.name}' was not purged since the start of the broker")
    _note_purged(queue, ())  # another request finds nothing meanwhile
    left: Sequence[Place] = purged
    try:
        search = MessageSearch(queue, MessageFilter(frozenset((MessageState.SETTLED,))), purged)
        destination = ToQueue(queue.name, call.vhost.queues)
        report = await carry_out(call, queue, search, body, MoveMode.COPY, destination, "itself")
        left = purged if body.dry_run else report.places
    finally:
        # Unless it was purged again meanwhile: that is the last purge.
        if not any(part.purged for part in queue.partitions):
            _note_purged(queue, left)
    return _answer(report, body)


def _note_purged(queue: Queue, places: Sequence[Place]) -> None:
    for at, part in enumerate(queue.partitions):
        part.purged = [
            (each.offset, each.end or each.offset) for each in places if each.partition == at
        ]


def destination_of(call: Call, queue: Queue, to: Target, mode: MoveMode) -> Destination:
    """Where messages of a queue go.

    Raises:
        Refused: there is no such place.
        AccessRefused: the caller may not publish there.
    """
    vhost, caller = call.vhost, call.caller
    if (to.queue is None) == (to.exchange is None):
        raise bad_request("`to` has a queue, or an exchange")
    if to.queue is not None:
        caller.authorize(vhost.name, ResourceKind.EXCHANGE, "", Verb.WRITE)
        target = vhost.queues.get(to.queue)
        if target is None or target.deleted:
            raise bad_request(f"no queue '{to.queue}' in vhost '{vhost.name}'")
        target.check_access(call)
        if target is queue and mode is MoveMode.MOVE:
            raise bad_request(f"messages of queue '{queue.name}' are there")
        return ToQueue(to.queue, vhost.queues)
    name = exchange_name(to.exchange or "")
    if not vhost.routing.has_exchange(name):
        raise bad_request(f"no exchange '{name}' in vhost '{vhost.name}'")
    caller.authorize(vhost.name, ResourceKind.EXCHANGE, name, Verb.WRITE)
    if vhost.routing.exchange(name).internal:
        raise bad_request(f"exchange '{name}' is internal")
    if vhost.routing.remembers(name):
        raise bad_request(f"exchange '{name}' remembers what comes by: name what is behind it")
    key = None if to.routing_key is None else to.routing_key.encode()
    if key is not None and len(key) > KEY_BYTES_MAX:
        raise bad_request(f"the routing key is longer than {KEY_BYTES_MAX} bytes")
    return ToExchange(vhost.routing, name, key, _may_publish(call, name))


def _may_publish(call: Call, exchange: str) -> Callable[[bytes], bool]:
    caller, vhost = call.caller, call.vhost
    if caller.user is None or not vhost.routing.routes_by_topic(exchange):
        return lambda key: True
    user, authorize = caller.user, caller.permissions.authorize_topic

    def may_publish(key: bytes) -> bool:
        try:
            authorize(user, vhost.name, exchange, Verb.WRITE, key.decode(errors="replace"))
        except AccessRefused:
            return False
        return True

    return may_publish


async def search_of(
    call: Call, queue: Queue, body: SelectionBody, messages: list[str] | None = None
) -> MessageSearch:
    """A search for the messages that a request means.

    It ends where the log ends now: what is copied to its own queue is not found again.

    Raises:
        Refused: there is no such place or filter.
        InvalidFilter: `filter` is no condition of SQL.
    """
    if not 1 <= body.limit <= LIMIT_MAX:
        raise bad_request(f"limit is not between 1 and {LIMIT_MAX}")
    now = call.broker.clock.now()
    said = {name: str(value) for name, value in (body.filter or {}).items()}
    # A condition that is misspelt must not mean all messages.
    if unknown := ", ".join(sorted(said.keys() - FILTER_KEYS)):
        raise bad_request(f"filter: expected {', '.join(FILTER_KEYS)}, not {unknown}")
    wanted = await message_filter(said, now)
    if messages is not None:
        if not 0 < len(messages) <= NAMED_MAX:
            raise bad_request(f"messages: expected 1 to {NAMED_MAX}")
        offsets = ",".join(messages) if all(":" in each for each in messages) else ":"
        named = sorted({each[:2] for each in places_of(queue, {"offset": offsets}, now)})
        places: list[Place] = []
        for partition, offset in named:
            if places and (places[-1].partition, places[-1].end) == (partition, offset):
                places[-1] = places[-1]._replace(end=offset + 1)
            else:
                places.append(Place(partition, offset, offset + 1))
        return MessageSearch(queue, replace(wanted, states=frozenset(MessageState)), places)
    logs = [each.log for each in queue.partitions]
    places = [
        each if each.end is not None else each._replace(end=logs[each.partition].visible_end)
        for each in places_of(queue, said, now)
    ]
    return MessageSearch(queue, wanted, places)


async def carry_out(
    call: Call,
    queue: Queue,
    search: MessageSearch,
    body: SelectionBody,
    mode: MoveMode,
    destination: Destination,
    where: str,
) -> MoveReport:
    """Have messages moved, and say so in the log.

    Args:
        where: they go, for the log.
    """
    states = frozenset((MessageState.READY,))
    if mode is MoveMode.COPY:
        states = search.wanted.states
    order = MoveOrder(mode, destination, body.limit, states, body.dry_run)
    report = await call.broker.messages.move(call.vhost, queue, search, order)
    call.is_dry_run = body.dry_run
    if not body.dry_run:
        call.broker.vhosts.events.note(
            f"messages.{_DONE[mode]}",
            queue=queue.name,
            vhost=queue.vhost,
            to=where,
            count=report.count,
            skipped=sum(report.skipped.values()),
            stopped=report.stopped,
        )
    return report


_DONE = {MoveMode.MOVE: "moved", MoveMode.COPY: "copied", MoveMode.DELETE: "deleted"}


def _answer(report: MoveReport, body: SelectionBody) -> Value:
    row = MoveAnswer(
        count=report.count,
        skipped=report.skipped,
        looked_at=report.looked_at,
        next=",".join(map(str, report.places)) or None,
        stopped=report.stopped or None,
        dry_run=body.dry_run,
        sample=[_sample_row(each) for each in report.sample],
    )
    return Value(row)


def _sample_row(moved: MovedMessage) -> MovedSample:
    return MovedSample(
        partition=moved.found.partition,
        offset=moved.found.offset,
        to=list(moved.route[:10]),
        exchange=moved.exchange.decode(errors="replace"),
        routing_key=moved.routing_key.decode(errors="replace"),
    )


def target_name(to: Target | None) -> str:
    """A target in the log."""
    if to is None:
        return ""
    return f"queue {to.queue}" if to.queue is not None else f"exchange {to.exchange}"
