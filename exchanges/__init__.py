"""Exchanges, bindings and routes of a vhost: pure values and functions, no I/O.

`RoutingTable` is the face: it is told of declarations and bindings, says what each changed, and
turns (exchange, routing key, headers) into names of queues.
"""

from exchanges.binding import Binding, DestinationKind
from exchanges.binding_index import BindingIndex
from exchanges.delayed_index import (
    DELAY_HEADER,
    DELAYED_TYPE,
    delay_milliseconds,
    held_name,
    holding_exchange,
)
from exchanges.errors import (
    DefaultExchangeProtected,
    ExchangeInequivalent,
    ExchangeInUse,
    ExchangeNotFound,
    InvalidBindingArguments,
    InvalidDelayedType,
    InvalidExchangeArgument,
    InvalidName,
    QueueNotFound,
    ReservedName,
    RoutingError,
    SystemExchangeProtected,
    UnknownExchangeType,
)
from exchanges.exchange import Exchange
from exchanges.exchange_types import EXCHANGE_TYPES, IndexFactory
from exchanges.field_values import comparable, field_type
from exchanges.names import DEFAULT_EXCHANGE, NAME_BYTES_MAX, check_name, check_not_reserved
from exchanges.route_walk import Route
from exchanges.routing_table import RoutingTable
from exchanges.topology import PREDECLARED
from exchanges.topology_change import NO_CHANGE, TopologyChange

__all__ = [
    "DEFAULT_EXCHANGE",
    "DELAYED_TYPE",
    "DELAY_HEADER",
    "EXCHANGE_TYPES",
    "NAME_BYTES_MAX",
    "NO_CHANGE",
    "PREDECLARED",
    "Binding",
    "BindingIndex",
    "DefaultExchangeProtected",
    "DestinationKind",
    "Exchange",
    "ExchangeInUse",
    "ExchangeInequivalent",
    "ExchangeNotFound",
    "IndexFactory",
    "InvalidBindingArguments",
    "InvalidDelayedType",
    "InvalidExchangeArgument",
    "InvalidName",
    "QueueNotFound",
    "ReservedName",
    "Route",
    "RoutingError",
    "RoutingTable",
    "SystemExchangeProtected",
    "TopologyChange",
    "UnknownExchangeType",
    "check_name",
    "check_not_reserved",
    "comparable",
    "delay_milliseconds",
    "field_type",
    "held_name",
    "holding_exchange",
]
