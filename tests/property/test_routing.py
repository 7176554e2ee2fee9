"""Routing against simple twins: regular expressions, plain loops over lists, no cache."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routelog.exchanges import (
    Binding,
    DestinationKind,
    Exchange,
    ExchangeInequivalent,
    ExchangeNotFound,
    Message,
    RoutingError,
    RoutingTable,
    TopologyChange,
)
from routelog.exchanges.topology import binding_graph

Fields = Mapping[str, object]

TYPES = ("direct", "fanout", "topic", "headers")
EXCHANGES = ("x0", "x1", "x2", "x3", "amq.headers")
QUEUES = ("q0", "q1", "q2")
ROUTING_KEYS = ("", "a", "b", "a.b", "b.b", "a.b.b", "q0")
BINDING_KEYS = (*ROUTING_KEYS, "*", "#", "a.*", "#.b", "*.#", "#.*")
MESSAGE_HEADERS: tuple[Fields, ...] = ({}, {"h": 1}, {"h": True}, {"h": 1, "g": "x"}, {"g": None})
ARGUMENTS: tuple[Fields, ...] = (
    {},
    {"h": 1},
    {"h": 1.0},
    {"h": True},
    {"h": None, "g": "x"},
    {"x-match": "any", "h": 1, "g": "x"},
    {"x-match": "any"},
)


# Twins: slow and plain.


def pattern_expression(pattern: str) -> re.Pattern[str]:
    """Return a regular expression over keys whose words each end with a dot."""
    forms = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".") if pattern else []
    return re.compile("".join(forms.get(word, re.escape(word) + r"\.") for word in words))


def topic_twin(pattern: str, routing_key: str) -> bool:
    dotted = routing_key + "." if routing_key else ""
    return pattern_expression(pattern).fullmatch(dotted) is not None


def values_equal(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other


def headers_twin(arguments: Fields, headers: Fields) -> bool:
    kind = arguments.get("x-match", "all")
    pairs = [
        (name, value)
        for name, value in arguments.items()
        if name != "x-match" and (kind in ("all-with-x", "any-with-x") or name[:2] != "x-")
    ]
    found = [
        name in headers and (value is None or values_equal(value, headers[name]))
        for name, value in pairs
    ]
    return any(found) if kind in ("any", "any-with-x") else all(found)


def binding_matches(
    type_name: str, key: str, arguments: Fields, routing_key: str, headers: Fields
) -> bool:
    if type_name == "direct":
        return key == routing_key
    if type_name == "topic":
        return topic_twin(key, routing_key)
    return type_name == "fanout" or headers_twin(arguments, headers)


@dataclass
class TopologyTwin:
    """A topology as one list of bindings, which every question reads from end to end."""

    exchanges: list[Exchange] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)

    def exchange(self, name: str) -> Exchange | None:
        return next((exchange for exchange in self.exchanges if exchange.name == name), None)

    def find(self, wanted: Binding) -> Binding | None:
        return next((b for b in self.bindings if same_binding(b, wanted)), None)

    def settle(self, lost: list[Binding]) -> None:
        """Remove bindings, and auto-delete exchanges that lost their last one."""
        self.bindings = [b for b in self.bindings if all(b is not other for other in lost)]
        for name in {b.source for b in lost}:
            exchange = self.exchange(name)
            if exchange and exchange.auto_delete and all(b.source != name for b in self.bindings):
                self.exchanges.remove(exchange)
                self.settle([b for b in self.bindings if leads_to(b, "exchange", name)])

    def route(self, name: str, routing_key: str, headers: Fields) -> set[str]:
        if name == "":
            return {routing_key} & set(self.queues)
        return self._reached(name, routing_key, headers, set())

    def _reached(self, name: str, routing_key: str, headers: Fields, seen: set[str]) -> set[str]:
        exchange = self.exchange(name)
        if exchange is None or name in seen:
            return set()
        seen.add(name)
        matching = [
            b
            for b in self.bindings
            if b.source == name
            and binding_matches(exchange.type, b.routing_key, b.arguments, routing_key, headers)
        ]
        queues = {b.destination for b in matching if b.destination_kind == "queue"}
        onward = [b.destination for b in matching if b.destination_kind == "exchange"]
        if not matching and exchange.alternate is not None:
            onward = [exchange.alternate]
        return queues.union(*(self._reached(n, routing_key, headers, seen) for n in onward))


def same_binding(one: Binding, other: Binding) -> bool:
    return (
        (one.source, one.destination, one.destination_kind, one.routing_key)
        == (other.source, other.destination, other.destination_kind, other.routing_key)
        and one.arguments.keys() == other.arguments.keys()
        and all(values_equal(one.arguments[n], other.arguments[n]) for n in one.arguments)
    )


def leads_to(binding: Binding, kind: DestinationKind, name: str) -> bool:
    return (binding.destination_kind, binding.destination) == (kind, name)


# The whole table against its twin.

some_exchange = st.sampled_from(EXCHANGES)
some_queue = st.sampled_from(QUEUES)
some_key = st.sampled_from(BINDING_KEYS)
some_arguments = st.sampled_from(ARGUMENTS)


def declaration(name: st.SearchStrategy[str]) -> st.SearchStrategy[Exchange]:
    alternate = st.builds(lambda other: {"alternate-exchange": other}, some_exchange)
    return st.builds(
        Exchange,
        name=name,
        type=st.sampled_from(TYPES),
        durable=st.booleans(),
        auto_delete=st.booleans(),
        arguments=st.just({}) | alternate,
    )


class RoutingAgainstTwin(RuleBasedStateMachine):
    """Random declarations, bindings and messages, told to both."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RoutingTable()
        self.twin = TopologyTwin(self.table.exchanges())
        for queue in QUEUES:
            self.add_queue(queue)

    @initialize(exchanges=st.tuples(*(declaration(st.just(name)) for name in EXCHANGES[:4])))
    def begin_with_exchanges(self, exchanges: tuple[Exchange, ...]) -> None:
        for exchange in exchanges:
            self.declare(exchange)

    @rule(wanted=declaration(some_exchange))
    def declare(self, wanted: Exchange) -> None:
        known = self.twin.exchange(wanted.name)
        if known is not None and known != wanted:
            with pytest.raises(ExchangeInequivalent):
                self.table.declare(wanted)
            return
        change = self.table.declare(wanted)
        assert change.exchanges_declared == ((wanted,) if known is None else ())
        if known is None:
            self.twin.exchanges.append(wanted)

    @rule(name=some_exchange.filter(lambda name: name != "amq.headers"), if_unused=st.booleans())
    def delete(self, name: str, if_unused: bool) -> None:
        exchange = self.twin.exchange(name)
        if if_unused and any(b.source == name for b in self.twin.bindings):
            with pytest.raises(RoutingError):
                self.table.delete(name, if_unused=True)
            return
        before = self._snapshot()
        change = self.table.delete(name, if_unused=if_unused)
        if exchange is not None:
            self.twin.exchanges.remove(exchange)
            self.twin.settle(
                [b for b in self.twin.bindings if name == b.source or leads_to(b, "exchange", name)]
            )
        self._check_removed(change, before)

    @rule(name=some_queue)
    def add_queue(self, name: str) -> None:
        self.table.add_queue(name, durable=name == "q0")
        if name not in self.twin.queues:
            self.twin.queues.append(name)

    @rule(name=some_queue)
    def remove_queue(self, name: str) -> None:
        before = self._snapshot()
        change = self.table.remove_queue(name)
        if name in self.twin.queues:
            self.twin.queues.remove(name)
        self.twin.settle([b for b in self.twin.bindings if leads_to(b, "queue", name)])
        self._check_removed(change, before)

    @rule(source=some_exchange, queue=some_queue, key=some_key, arguments=some_arguments)
    def bind_queue(self, source: str, queue: str, key: str, arguments: Fields) -> None:
        self._bind(Binding(source, queue, "queue", key, arguments), queue in self.twin.queues)

    @rule(source=some_exchange, destination=some_exchange, key=some_key, arguments=some_arguments)
    def bind_exchange(self, source: str, destination: str, key: str, arguments: Fields) -> None:
        binding = Binding(source, destination, "exchange", key, arguments)
        self._bind(binding, self.twin.exchange(destination) is not None)

    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        if not self.twin.bindings:
            return
        binding = data.draw(st.sampled_from(self.twin.bindings))
        before = self._snapshot()
        change = self.table.unbind(binding)
        self.twin.settle([binding])
        self._check_removed(change, before)

    @rule(exchange=st.sampled_from(("", *EXCHANGES)), headers=st.sampled_from(MESSAGE_HEADERS))
    def route(self, exchange: str, headers: Fields) -> None:
        if self.twin.exchange(exchange) is None:
            with pytest.raises(ExchangeNotFound):
                self.table.route(exchange, b"a", Message(headers))
            return
        for key in ROUTING_KEYS:
            expected = tuple(sorted(self.twin.route(exchange, key, headers)))
            assert self.table.route(exchange, key.encode(), Message(headers)) == expected
            if not self.table.needs_headers(exchange):
                assert self.table.route(exchange, key.encode()) == expected

    @invariant()
    def the_lists_agree(self) -> None:
        assert self.table.exchanges() == self.twin.exchanges
        listed = [b for b in self.table.bindings() if b.source]
        assert len(listed) == len(self.twin.bindings)
        assert set(listed) == set(self.twin.bindings)
        by_destination = [
            *(b for q in self.twin.queues for b in self.table.bindings_to_queue(q)[1:]),
            *(b for x in self.twin.exchanges for b in self.table.bindings_to_exchange(x.name)),
        ]
        assert len(by_destination) == len(listed)
        assert set(by_destination) == set(listed)

    @invariant()
    def what_is_remembered_is_true(self) -> None:
        for exchange in self.twin.exchanges:
            routes = self.table.cached_routes(exchange.name) or {}
            for key, route in routes.items():
                for headers in MESSAGE_HEADERS:
                    assert set(route) == self.twin.route(exchange.name, key.decode(), headers)

    @invariant()
    def durability_follows_from_the_ends(self) -> None:
        for binding in self.table.bindings():
            source = self.table.exchange(binding.source)
            if binding.destination_kind == "queue":
                assert binding.durable == (source.durable and binding.destination == "q0")
            else:
                end = self.table.exchange(binding.destination)
                assert binding.durable == (source.durable and end.durable)

    def _bind(self, wanted: Binding, destination_exists: bool) -> None:
        if self.twin.exchange(wanted.source) is None or not destination_exists:
            with pytest.raises(RoutingError):
                self.table.bind(wanted)
            return
        known = self.twin.find(wanted)
        change = self.table.bind(wanted)
        assert change.bindings_added == ((wanted,) if known is None else ())
        if known is None:
            self.twin.bindings.append(wanted)

    def _snapshot(self) -> tuple[list[Exchange], list[Binding]]:
        return list(self.twin.exchanges), list(self.twin.bindings)

    def _check_removed(
        self, change: TopologyChange, before: tuple[list[Exchange], list[Binding]]
    ) -> None:
        exchanges = [x for x in before[0] if x not in self.twin.exchanges]
        bindings = [b for b in before[1] if self.twin.find(b) is None]
        assert sorted(x.name for x in change.exchanges_deleted) == sorted(x.name for x in exchanges)
        assert len(change.bindings_removed) == len(bindings)
        assert set(change.bindings_removed) == set(bindings)


class LooseRoutingAgainstTwin(RoutingAgainstTwin):
    """As above, but what is deleted leaves all its bindings but one to later turns, one in each."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(binding_graph, "AT_ONCE_MAX", 1)
        self._patch.setattr(binding_graph, "DEPARTED_BINDINGS_MAX", 1)
        super().__init__()

    def teardown(self) -> None:
        self._patch.undo()

    def _check_removed(
        self, change: TopologyChange, before: tuple[list[Exchange], list[Binding]]
    ) -> None:
        deleted, removed = [*change.exchanges_deleted], [*change.bindings_removed]
        while change := self.table.remove_departed():
            deleted += change.exchanges_deleted
            removed += change.bindings_removed
        whole = TopologyChange(exchanges_deleted=tuple(deleted), bindings_removed=tuple(removed))
        super()._check_removed(whole, before)


TestLooseRoutingAgainstTwin = LooseRoutingAgainstTwin.TestCase
TestLooseRoutingAgainstTwin.settings = settings(
    max_examples=50, stateful_step_count=50, deadline=None
)
TestRoutingAgainstTwin = RoutingAgainstTwin.TestCase
TestRoutingAgainstTwin.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


# A whole graph at once: denser than what single steps build up.


def dense_graph(table: RoutingTable, exchanges: list[Exchange], bindings: list[Binding]) -> None:
    for queue in QUEUES:
        table.add_queue(queue, durable=False)
    for exchange in exchanges:
        table.restore_exchange(exchange)
    for binding in bindings:
        table.bind(binding)


GRAPH_EXCHANGES = EXCHANGES[:4]
some_graph_exchange = st.sampled_from(GRAPH_EXCHANGES)
graph_bindings = st.lists(
    st.builds(Binding, some_graph_exchange, some_queue, st.just("queue"), some_key, some_arguments)
    | st.builds(
        Binding,
        some_graph_exchange,
        some_graph_exchange,
        st.just("exchange"),
        some_key,
        some_arguments,
    ),
    max_size=10,
)
graph_exchanges = st.tuples(*(declaration(st.just(name)) for name in GRAPH_EXCHANGES))


@settings(max_examples=300, deadline=None)
@given(exchanges=graph_exchanges, bindings=graph_bindings, headers=st.permutations(MESSAGE_HEADERS))
def test_every_message_takes_every_way_through_a_graph(
    exchanges: tuple[Exchange, ...], bindings: list[Binding], headers: list[Fields]
) -> None:
    table = RoutingTable()
    dense_graph(table, list(exchanges), bindings)
    twin = TopologyTwin(list(exchanges), list(QUEUES), bindings)
    for exchange in GRAPH_EXCHANGES:
        for key in ROUTING_KEYS:
            for fields in headers:
                expected = tuple(sorted(twin.route(exchange, key, fields)))
                assert table.route(exchange, key.encode(), Message(fields)) == expected


@settings(max_examples=300, deadline=None)
@given(exchanges=graph_exchanges, bindings=graph_bindings, queues=st.permutations(QUEUES))
def test_removing_queues_cascades_through_a_graph(
    exchanges: tuple[Exchange, ...], bindings: list[Binding], queues: list[str]
) -> None:
    table = RoutingTable()
    dense_graph(table, list(exchanges), bindings)
    twin = TopologyTwin(table.exchanges(), list(QUEUES), [b for b in table.bindings() if b.source])
    for queue in queues:
        table.remove_queue(queue)
        twin.settle([b for b in twin.bindings if leads_to(b, "queue", queue)])
        assert table.exchanges() == twin.exchanges
        assert {b for b in table.bindings() if b.source} == set(twin.bindings)


# Headers exchanges alone, with richer input.

field_values = st.sampled_from([0, 1, 1.0, 2.5, True, False, None, "1", "x", ""])
field_names = st.sampled_from(["a", "b", "c", "x-a", "x-b"])
fields = st.dictionaries(field_names, field_values, max_size=4)
match_words = st.sampled_from(
    [{}, *({"x-match": word} for word in ("all", "any", "all-with-x", "any-with-x"))]
)
headers_arguments = st.builds(lambda table, word: {**table, **word}, fields, match_words)


@settings(max_examples=300, deadline=None)
@given(
    bound=st.lists(headers_arguments, max_size=10),
    kept=st.lists(st.booleans(), min_size=10, max_size=10),
    messages=st.lists(fields, min_size=1, max_size=6),
)
def test_headers_bindings_match_like_a_loop_over_all_of_them(
    bound: list[Fields], kept: list[bool], messages: list[Fields]
) -> None:
    table = RoutingTable()
    for number, arguments in enumerate(bound):
        table.add_queue(f"q{number}", durable=False)
        table.bind(Binding("amq.headers", f"q{number}", "queue", "", arguments))
    for number, arguments in enumerate(bound):
        if not kept[number]:
            table.unbind(Binding("amq.headers", f"q{number}", "queue", "", arguments))
    for headers in messages:
        expected = {
            f"q{number}"
            for number, arguments in enumerate(bound)
            if kept[number] and headers_twin(arguments, headers)
        }
        assert set(table.route("amq.headers", b"", Message(headers))) == expected
