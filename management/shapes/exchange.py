"""Exchanges, and where they would route."""

from typing import Any, NotRequired, TypedDict

from routelog.management.shapes.flow import ArrivalFlow, PublisherFlow
from routelog.management.shapes.statistics import ExchangeMessageStats


class ExchangeRow(TypedDict):
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
    messages_delayed: NotRequired[int]
    message_stats: NotRequired[ExchangeMessageStats]


class OneExchange(ExchangeRow):
    """An exchange that was asked for alone."""

    incoming: NotRequired[list[PublisherFlow]]
    outgoing: NotRequired[list[ArrivalFlow]]


class Routed(TypedDict):
    """Whether a message reached a queue."""

    routed: bool


class TriedRoute(TypedDict):
    """The queues that a message would reach: the first thousand, and how many there are."""

    queues: list[str]
    count: int
