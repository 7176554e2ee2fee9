"""The table of exchange types: each has a name, and a function that creates an index.

To add a type, write a file with its index, and add a line here.
"""

from collections.abc import Callable, Mapping
from itertools import count

from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.binding_index import BindingIndex
from routelog.exchanges.indexes.consistent_hash_index import ConsistentHashIndex, hash_source
from routelog.exchanges.indexes.delayed_index import DELAYED_TYPE, delayed_index
from routelog.exchanges.indexes.direct_index import DirectIndex
from routelog.exchanges.indexes.fanout_index import (
    DEDUPLICATION,
    RECENT_HISTORY,
    FanoutIndex,
    StatefulFanoutIndex,
    deduplication_options,
    history_length,
)
from routelog.exchanges.indexes.headers_index import HeadersIndex
from routelog.exchanges.indexes.modulus_hash_index import ModulusHashIndex
from routelog.exchanges.indexes.random_index import RandomBelow, RandomIndex
from routelog.exchanges.indexes.topic_index import TopicIndex

# Creates the empty index of an exchange, and refuses invalid arguments of its type.
IndexFactory = Callable[[Exchange], BindingIndex]


def type_table(random_below: RandomBelow) -> dict[str, IndexFactory]:
    """Return the types by name.

    Args:
        random_below: the source of random numbers for random exchanges.
    """
    types: dict[str, IndexFactory] = {
        "direct": lambda exchange: DirectIndex(),
        "fanout": lambda exchange: FanoutIndex(),
        "topic": lambda exchange: TopicIndex(),
        "headers": lambda exchange: HeadersIndex(),
        "x-consistent-hash": lambda exchange: ConsistentHashIndex(hash_source(exchange)),
        "x-modulus-hash": lambda exchange: ModulusHashIndex(),
        "x-random": lambda exchange: RandomIndex(random_below),
        "x-local-random": lambda exchange: RandomIndex(random_below, local=True),
        RECENT_HISTORY: _recent_history,
        DEDUPLICATION: _deduplication,
        DELAYED_TYPE: lambda exchange: delayed_index(exchange, types),
    }
    return types


def _recent_history(exchange: Exchange) -> BindingIndex:
    history_length(exchange)  # which refuses invalid arguments
    return StatefulFanoutIndex()


def _deduplication(exchange: Exchange) -> BindingIndex:
    deduplication_options(exchange)
    return StatefulFanoutIndex()


_turns = count()

# Without a source of random numbers: random exchanges choose their bindings in turn.
EXCHANGE_TYPES: Mapping[str, IndexFactory] = type_table(lambda below: next(_turns) % below)
