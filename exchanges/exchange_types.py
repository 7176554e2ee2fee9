"""The exchange types there are: a name and what makes its index.

A further type is one file with an index, and one line here.
"""

from collections.abc import Callable, Mapping

from exchanges.binding_index import BindingIndex
from exchanges.delayed_index import DELAYED_TYPE, delayed_index
from exchanges.direct_index import DirectIndex
from exchanges.exchange import Exchange
from exchanges.fanout_index import FanoutIndex
from exchanges.headers_index import HeadersIndex
from exchanges.topic_index import TopicIndex

# Makes the empty index of an exchange; a type with arguments of its own refuses bad ones here.
IndexFactory = Callable[[Exchange], BindingIndex]

EXCHANGE_TYPES: Mapping[str, IndexFactory] = {
    "direct": lambda exchange: DirectIndex(),
    "fanout": lambda exchange: FanoutIndex(),
    "topic": lambda exchange: TopicIndex(),
    "headers": lambda exchange: HeadersIndex(),
    DELAYED_TYPE: lambda exchange: delayed_index(exchange, EXCHANGE_TYPES),
}
