"""Exchanges, bindings and routes of a vhost: pure values and functions, no I/O.

`RoutingTable` is the face: it takes declarations and bindings, returns what each changed, and
turns (exchange, routing key, headers) into names of queues.
"""

from routelog.exchanges.bindings.binding import Binding, DestinationKind
from routelog.exchanges.bindings.destinations import Route
from routelog.exchanges.bindings.errors import (
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
from routelog.exchanges.bindings.exchange import Exchange, check_equivalent
from routelog.exchanges.bindings.field_values import comparable, field_type, octets
from routelog.exchanges.bindings.name_table import NameTable
from routelog.exchanges.bindings.names import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    check_name,
    check_not_reserved,
)
from routelog.exchanges.bindings.sorted_name_table import SortedNameTable
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE, Message
from routelog.exchanges.indexes.delayed_index import (
    DELAY_HEADER,
    DELAYED_TYPE,
    delay_milliseconds,
    held_name,
    holding_exchange,
)
from routelog.exchanges.indexes.exchange_types import EXCHANGE_TYPES, type_table
from routelog.exchanges.indexes.fanout_index import (
    DEDUPLICATION,
    RECENT_HISTORY,
    DeduplicationOptions,
    deduplication_options,
    history_length,
    whole_number,
)
from routelog.exchanges.routes.routing_table import RoutingTable
from routelog.exchanges.topology.binding_graph import NO_CHANGE, TopologyChange
from routelog.exchanges.topology.topology import NODE_EXCHANGES, PREDECLARED
