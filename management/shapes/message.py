"""Messages, and what became of them."""

from typing import Any, Literal, TypedDict

Encoding = Literal["string", "base64"]


class TakenMessageRow(TypedDict):
    """A message that was taken; `message_count` are left."""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: dict[str, Any]
    payload_encoding: Encoding
    payload: str


class Holder(TypedDict):
    """Who has an unacknowledged message, and for how long at least."""

    consumer_tag: str
    connection: str
    channel: int
    seconds: float


class BrowsedMessageRow(TypedDict):
    """A message as it lies in its queue; `received_at` in milliseconds since 1970."""

    partition: int
    offset: int
    state: Literal["ready", "unacked", "settled"]
    received_at: int
    exchange: str
    routing_key: str
    delivery_count: int
    consumer: Holder | None
    properties: dict[str, Any]
    payload_bytes: int
    payload_encoding: Encoding
    payload: str


class BrowsedPage(TypedDict):
    """Messages, and where to go on; null: that is all."""

    items: list[BrowsedMessageRow]
    next: str | None
    end: str
    looked_at: int
    unreadable: list[str]


class MovedSample(TypedDict):
    """One of the messages that were moved."""

    partition: int
    offset: int
    to: list[str]
    exchange: str
    routing_key: str


class MoveAnswer(TypedDict):
    """What became of messages; `skipped` counts those that stay, by reason."""

    count: int
    skipped: dict[str, int]
    looked_at: int
    next: str | None
    stopped: str | None
    dry_run: bool
    sample: list[MovedSample]


class DelayedMessageRow(TypedDict):
    """A message that is held until it is due; `due_at` and `delay` in milliseconds."""

    id: str
    due: str
    due_at: int
    delay: int
    exchange: str
    routing_key: str
    payload_bytes: int


class DelayedPage(TypedDict):
    """What an exchange holds: how many messages, some of them, and where to go on."""

    messages: int
    items: list[DelayedMessageRow]
    next: str | None


class Cancelled(TypedDict):
    """How many messages will not be delivered."""

    cancelled: int
