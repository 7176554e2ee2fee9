# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The walk from an exchange to queues, along bindings between exchanges and along alternate exchanges."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cython

from routelog.exchanges.bindings.destinations import Destinations, Route, ordered_route
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.topology.graph_nodes import ExchangeNode

Exchanges = Mapping[str, ExchangeNode]
Ends = Collection[tuple[str, str]]

# Called when a message reaches an exchange with state; returns whether the message goes on from there.
Visit = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class WalkTraits:
    """What the walks from one exchange may depend on: headers, state of earlier messages, randomness."""

    key_decides: bool
    reads_headers: bool
    remembers: bool = False


def walk(
    exchanges: Exchanges,
    start: ExchangeNode,
    routing_keys: Sequence[bytes],
    message: Message,
    visit: Visit | None = None,
    departed: Ends = (),
) -> Route:
    """Return the queues that a message reaches, each once: see `ordered_route`.

    An exchange at which no binding matches passes the message to its alternate, if that exists; a binding to a
    queue or exchange that was reached before is a match, too. An exchange is visited once, so cycles end.

    Args:
        routing_keys: of the message; each counts at every exchange.
        visit: called at exchanges with state (`BindingIndex.remembers`); None: the message always goes on.
        departed: kinds and names of deleted queues and exchanges; a binding to one of them is no match.
    """
    queues: list[str] = []
    crowds: list[Destinations] = []
    seen = {start.exchange.name}
    pending = [start]
    while pending:
        node = pending.pop()
        if visit is not None and node.index.remembers and not visit(node.exchange.name):
            continue
        for name in _exchanges_after(node, routing_keys, message, queues, crowds, departed):
            if name not in seen and name in exchanges:
                seen.add(name)
                pending.append(exchanges[name])
    if crowds:
        return _joined(queues, crowds, departed)
    return tuple(queues) if len(queues) < 2 else ordered_route(dict.fromkeys(queues))


def walk_traits(exchanges: Exchanges, start: ExchangeNode) -> WalkTraits:
    """Return the traits of all walks from an exchange."""
    nodes = list(_within_reach(exchanges, start))
    return WalkTraits(
        key_decides=all(node.index.key_decides for node in nodes),
        reads_headers=any(node.index.reads_headers for node in nodes),
        remembers=any(node.index.remembers for node in nodes),
    )


@cython.cfunc
@cython.locals(queues=list, crowds=list)
def _joined(queues: list[str], crowds: list[Destinations], departed: Ends) -> Route:
    # A dict copies the keys of another dict without hashing them; a set would take twice the time.
    if len(crowds) == 1 and not queues and not departed:
        return crowds[0].route()
    distinct: dict[str, int | None] = dict.fromkeys(queues)
    for crowd in crowds:
        distinct.update(crowd.queues)
    for kind, name in departed:
        if kind == "queue":
            distinct.pop(name, None)
    return ordered_route(distinct)


@cython.cfunc
@cython.returns(list)
@cython.locals(
    queues=list,
    crowds=list,
    following=list,
    matching=list,
    bindings=list,
    matched=cython.bint,
    crowded=cython.bint,
)
def _exchanges_after(
    node: ExchangeNode,
    routing_keys: Sequence[bytes],
    message: Message,
    queues: list[str],
    crowds: list[Destinations],
    departed: Ends,
) -> list[str]:
    following: list[str] = []
    matched = False
    crowd = Destinations
    for key in routing_keys:
        # Several small loops: 20,000 bindings lie scattered in memory, and in a small loop the processor
        # fetches several at a time.
        matching: list[Any] = list(node.index.match(key, message))
        bindings = matching
        crowded = False
        for each in matching:
            if type(each) is crowd:
                crowded = True
                if _leads_on(each, departed):
                    matched = True
                    crowds.append(each)
                    following += each.exchanges
        if crowded:
            bindings = [each for each in matching if type(each) is not crowd]
        if departed:
            bindings = [b for b in bindings if (b.destination_kind, b.destination) not in departed]
        matched = matched or bool(bindings)
        queues += [b.destination for b in bindings if b.destination_kind == "queue"]
        if node.next_exchanges:
            following += [b.destination for b in bindings if b.destination_kind == "exchange"]
    if not matched and node.alternate is not None:
        following.append(node.alternate)
    return following


@cython.cfunc
@cython.returns(cython.bint)
@cython.exceptval(check=True)
def _leads_on(crowd: Destinations, departed: Ends) -> bool:
    # Whether any destination of the match still exists.
    if not departed:
        return True
    gone = [
        name
        for kind, name in departed
        if name in (crowd.queues if kind == "queue" else crowd.exchanges)
    ]
    return len(gone) < len(crowd.queues) + len(crowd.exchanges)


def _within_reach(exchanges: Exchanges, start: ExchangeNode) -> Iterator[ExchangeNode]:
    seen = {start.exchange.name}
    pending = [start]
    while pending:
        node = pending.pop()
        yield node
        for name in (*node.next_exchanges, node.alternate):
            if name is not None and name not in seen and name in exchanges:
                seen.add(name)
                pending.append(exchanges[name])
