"""One-shot shovels on this broker, as "Move messages" of RabbitMQ's own page and tools sets them."""

from typing import Any
from urllib.parse import unquote

import msgspec

from routelog.management.calls.answer import Answer, Empty
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request
from routelog.management.views.messages import (
    LIMIT_MAX,
    SelectionBody,
    Target,
    carry_out,
    destination_of,
    named_queue,
    search_of,
    target_name,
)
from routelog.vhosts import MoveMode

_PLAIN = ("amqp091", "amqp091-mgmt", None)  # protocols that mean this broker's own queues


class ShovelBody(msgspec.Struct):
    """The parameter's value."""

    value: dict[str, Any]


async def put_shovel(call: Call) -> Answer:
    """Move what is in a queue now to another queue or exchange; no shovel is left behind."""
    asked = (await call.body(ShovelBody)).value
    to = _checked(call, asked)
    queue = named_queue(call, str(asked["src-queue"]))
    if queue.is_stream:
        raise bad_request(f"stream '{queue.name}' keeps its messages")
    destination = destination_of(call, queue, to, MoveMode.MOVE)
    body = SelectionBody(filter={}, limit=LIMIT_MAX)
    count = 0
    while True:
        search = await search_of(call, queue, body)
        where = target_name(to)
        report = await carry_out(call, queue, search, body, MoveMode.MOVE, destination, where)
        count += report.count
        if report.stopped:
            raise bad_request(f"{count} messages were moved; then: {report.stopped}")
        if not report.places:
            return Empty(201)
        body.filter = {"offset": ",".join(map(str, report.places))}


def _checked(call: Call, asked: dict[str, Any]) -> Target:
    # RabbitMQ's names; what says how fast, or how often it is tried, means nothing here.
    if asked.get("src-delete-after", asked.get("delete-after")) != "queue-length":
        raise _refused('"src-delete-after" has to be "queue-length": messages are moved once')
    for side in ("src", "dest"):
        if asked.get(f"{side}-protocol") not in _PLAIN:
            raise _refused(f'"{side}-protocol" has to be "amqp091"')
        _check_address(call, side, asked.get(f"{side}-uri"))
    if not isinstance(asked.get("src-queue"), str):
        raise _refused('"src-queue" has to be the name of a queue')
    queue, exchange = asked.get("dest-queue"), asked.get("dest-exchange")
    key = asked.get("dest-exchange-key")
    for name, value in (("queue", queue), ("exchange", exchange), ("exchange-key", key)):
        if not isinstance(value, str | None):
            raise _refused(f'"dest-{name}" has to be text')
    if (queue is None) == (exchange is None):
        raise _refused('expected "dest-queue", or "dest-exchange"')
    return Target(queue, exchange, key)


def _check_address(call: Call, side: str, address: object) -> None:
    given = address[0] if isinstance(address, list) and len(address) == 1 else address
    if not isinstance(given, str) or not given.startswith("amqp://") or given[7:8] not in ("", "/"):
        raise _refused(f'"{side}-uri" has to be this broker: amqp:// or amqp:///vhost')
    vhost = unquote(given[8:].partition("?")[0]) or "/"
    if vhost != call.vhost.name:
        raise _refused(f"\"{side}-uri\" is of vhost '{vhost}', not of '{call.vhost.name}'")


def _refused(reason: str) -> Exception:
    return bad_request(f"Validation failed\n\n{reason}\n")
