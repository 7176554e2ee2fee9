"""Delayed messages: what an exchange holds, and cancelling it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from routelog.log_backend import ScheduledRecord
from routelog.management.calls.answer import Answer, Empty, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.message_wanted import number_of
from routelog.management.calls.operation import Parameter, answers, changes
from routelog.management.views.bindings import exchange_name
from routelog.vhosts import (
    NOTHING_BEFORE,
    HeldMessage,
    HeldMessages,
    ResourceKind,
    Verb,
)

COUNT = 100
COUNT_MAX = 500  # of one page, as in other lists
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, tzinfo=UTC)
_NUMBER_MAX = 2**63 - 1


class DelayedMessageRow(msgspec.Struct):
    """A message that is held until it is due; `due_at` and `delay` in milliseconds."""

    id: str
    due: str
    due_at: int
    delay: int
    exchange: str
    routing_key: str
    payload_bytes: int


class DelayedPage(msgspec.Struct):
    """What an exchange holds: how many messages, some of them, and where to go on."""

    messages: int
    items: list[DelayedMessageRow]
    next: str | None


class Cancelled(msgspec.Struct):
    """How many messages will not be delivered."""

    cancelled: int


@answers(
    DelayedPage,
    query={
        "count": Parameter("at most so many", Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]),
        "from": Parameter("`next` of the page before"),
    },
)
async def list_delayed(call: Call) -> Answer:
    """A page of what an exchange holds, what is due next first."""
    held = _held(call, Verb.READ)
    count = number_of(call.query, "count", COUNT, COUNT_MAX, least=1)
    after = call.query.get("from")
    first = NOTHING_BEFORE if after is None else _entry(after)
    page = await call.vhost.hosted.delays.page(held, first, count)
    return Value(
        DelayedPage(
            messages=held.count,
            items=[_row(each) for each in page.messages],
            next=None if page.following is None else _id(page.following),
        )
    )


@changes()
def cancel_one(call: Call) -> Answer:
    """Let a message never be delivered."""
    if not _held(call, Verb.CONFIGURE).cancel(_entry(call.path("id"))):
        raise not_found("delayed message", call.path("id"), call.vhost.name)
    return Empty()


@answers(Cancelled)
def cancel_all(call: Call) -> Answer:
    """Let nothing of what an exchange holds be delivered."""
    return Value(Cancelled(_held(call, Verb.CONFIGURE).cancel_all()))


def _held(call: Call, verb: Verb) -> HeldMessages:
    name = exchange_name(call.path("name"))
    held = call.vhost.hosted.delays.held(name)
    if held is None:
        raise not_found("delayed message exchange", name, call.vhost.name)
    call.caller.authorize(call.vhost.name, ResourceKind.EXCHANGE, name, verb)
    return held


def _row(message: HeldMessage) -> DelayedMessageRow:
    due = message.entry.due
    return DelayedMessageRow(
        id=_id(message.entry),
        due=_text(due),
        due_at=due // 1_000,
        delay=(due - message.received) // 1_000,
        exchange=message.exchange.decode(errors="replace"),
        routing_key=message.routing_key.decode(errors="replace"),
        payload_bytes=message.body_bytes,
    )


def _text(due: int) -> str:
    # Python's calendar ends with the year 9999; delays do not.
    if due >= (_LAST - _EPOCH) // timedelta(microseconds=1):
        return "after 9999"
    return (_EPOCH + timedelta(microseconds=due)).isoformat(timespec="milliseconds")


def _id(entry: ScheduledRecord) -> str:
    return "-".join(map(str, entry))


def _entry(text: str) -> ScheduledRecord:
    parts = text.split("-")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts):
        raise bad_request("an id is three numbers, as the list gives it")
    due, part, offset = map(int, parts)
    if max(due, offset) > _NUMBER_MAX or part > 255:
        raise bad_request("an id is three numbers, as the list gives it")
    return ScheduledRecord(due, part, offset)
