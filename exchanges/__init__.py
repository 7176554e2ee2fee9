"""Exchanges, bindings and routes of a vhost: pure values and functions, no I/O.

`RoutingTable` is the face: it is told of declarations and bindings, says what each changed, and
turns (exchange, routing key, headers) into names of queues.
"""

from exchanges.binding import Binding, DestinationKind
from exchanges.binding_index import BindingIndex
from exchanges.deduplication_index import (
    DEDUPLICATION,
    DeduplicationOptions,
    deduplication_options,
    whole_number,
)
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
    InvalidExchangeArgument,
    InvalidExchangeArguments,
    InvalidName,
    QueueNotFound,
    ReservedName,
    RoutingError,
    SystemExchangeProtected,
    UnknownExchangeType,
)
from exchanges.exchange import Exchange
from exchanges.exchange_types import EXCHANGE_TYPES, IndexFactory, type_table
from exchanges.field_values import comparable, field_type, octets
from exchanges.message import BARE_MESSAGE, Message
from exchanges.name_table import NameTable
from exchanges.names import DEFAULT_EXCHANGE, NAME_BYTES_MAX, check_name, check_not_reserved
from exchanges.recent_history_index import RECENT_HISTORY, history_length
from exchanges.route import Route
from exchanges.route_walk import Visit
from exchanges.routing_table import RoutingTable
from exchanges.stale_routes import StaleRoutes
from exchanges.topology import NODE_EXCHANGES, PREDECLARED
from exchanges.topology_change import NO_CHANGE, TopologyChange

__all__ = [
    "BARE_MESSAGE",
    "DEDUPLICATION",
    "DEFAULT_EXCHANGE",
    "DELAYED_TYPE",
    "DELAY_HEADER",
    "EXCHANGE_TYPES",
    "NAME_BYTES_MAX",
    "NODE_EXCHANGES",
    "NO_CHANGE",
    "PREDECLARED",
    "RECENT_HISTORY",
    "Binding",
    "BindingIndex",
    "DeduplicationOptions",
    "DefaultExchangeProtected",
    "DestinationKind",
    "Exchange",
    "ExchangeInUse",
    "ExchangeInequivalent",
    "ExchangeNotFound",
    "IndexFactory",
    "InvalidBindingArguments",
    "InvalidExchangeArgument",
    "InvalidExchangeArguments",
    "InvalidName",
    "Message",
    "NameTable",
    "QueueNotFound",
    "ReservedName",
    "Route",
    "RoutingError",
    "RoutingTable",
    "StaleRoutes",
    "SystemExchangeProtected",
    "TopologyChange",
    "UnknownExchangeType",
    "Visit",
    "check_name",
    "check_not_reserved",
    "comparable",
    "deduplication_options",
    "delay_milliseconds",
    "field_type",
    "held_name",
    "history_length",
    "holding_exchange",
    "octets",
    "type_table",
    "whole_number",
]
