"""Bindings."""

from typing import Any, Literal, TypedDict


class BindingRow(TypedDict):
    """A binding; `properties_key` names it in paths."""

    source: str
    vhost: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str
