"""Exchanges, their bindings, and where they would route."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from routelog.management.shapes.flow import ArrivalFlow, PublisherFlow
from routelog.management.shapes.statistics import ExchangeMessageStats


class BindingRow(Struct):
    """A binding; `properties_key` names it in paths."""

    source: str
    vhost: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str


class ExchangeRow(Struct, kw_only=True):
    """An exchange; `messages_delayed` is what a delayed exchange holds."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    policy: str | None
    user_who_performed_action: str
    messages_delayed: int | UnsetType = UNSET
    message_stats: ExchangeMessageStats | UnsetType = UNSET


class OneExchange(ExchangeRow, kw_only=True):
    """An exchange that was asked for alone."""

    incoming: list[PublisherFlow] | UnsetType = UNSET
    outgoing: list[ArrivalFlow] | UnsetType = UNSET


class Routed(Struct):
    """Whether a message reached a queue."""

    routed: bool


class PublishedBatch(Struct):
    """How many messages are as safe as a confirm says, and the indexes of the others.

    Attributes:
        unroutable: those that no queue gets.
        refused: those that were not stored.
    """

    confirmed: int
    unroutable: list[int]
    refused: list[int]


class TriedRoute(Struct):
    """The queues that a message would reach: the first thousand, and how many there are.

    `bindings` are those on its way, the first 200.
    """

    queues: list[str]
    count: int
    bindings: list[BindingRow]
