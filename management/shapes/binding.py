"""Bindings."""

from typing import Any, Literal

from msgspec import Struct


class BindingRow(Struct):
    """A binding; `properties_key` names it in paths."""

    source: str
    vhost: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str
