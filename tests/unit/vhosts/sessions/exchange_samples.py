"""Exchanges with state, and messages for them."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
from support.frame_samples import some_properties
from support.queue_samples import declare_queue

from routelog.exchanges import Binding, Exchange, held_name
from routelog.log_backend import PERSISTENT, Records, encode_records
from routelog.vhosts import QueueProperties, VirtualHost

DEDUPLICATION = "x-message-deduplication"
HISTORY = "x-recent-history"
DELAYED = "x-delayed-message"


def batch(*messages: tuple[str, str, dict[str, Any]], attributes: int = PERSISTENT) -> Records:
    """A batch of messages: key, body, headers."""
    source, rows = bytearray(), array("i")
    for key, body, headers in messages:
        properties = some_properties(headers=headers).marshal() if headers else b"\0\0"
        for part in (key.encode(), properties, body.encode()):
            rows.extend((len(source), len(part)))
            source += part
    made: Records = encode_records(
        memoryview(source),
        memoryview(rows),
        None,
        len(messages),
        b"x",
        None,
        attributes,
        1_000_000,
    )
    return made


async def declared(vhost: VirtualHost, name: str, **arguments: object) -> None:
    """Declare a durable queue; underlines in names of arguments are dashes."""
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    _, durable = declare_queue(
        vhost, QueueProperties(name, durable=True, arguments=named), object()
    )
    if durable is not None:
        await durable


def exchange(vhost: VirtualHost, kind: str, *keys: str, **arguments: object) -> None:
    """Declare the exchange `x`, with a binding to the queue of each key."""
    options = {"durable": False, "auto_delete": False, "internal": False}
    vhost.declare_exchange(Exchange("x", kind, arguments=arguments, **options))
    for key in keys:
        vhost.bind(Binding("x", key, "queue", key))


def held(vhost: VirtualHost, name: str) -> list[bytes]:
    """Bodies of what a queue has, which are taken out."""
    taken = []
    while (delivery := vhost.queues[name].get()) is not None:
        taken.append(bytes(delivery.records.body(delivery.index)))
    return taken


def named(vhost: str, exchange: str) -> bytes:
    return msgspec.msgpack.encode([vhost, held_name(exchange)])
