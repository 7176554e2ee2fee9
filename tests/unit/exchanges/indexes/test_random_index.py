"""The random exchanges' index."""

from collections import Counter
from itertools import count

import pytest

from routelog.exchanges import Exchange, InvalidBindingArguments, RoutingTable
from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.random_index import RandomIndex


def taking_turns() -> RandomIndex:
    turns = count()
    return RandomIndex(lambda below: next(turns) % below)


def test_each_destination_has_one_chance_however_often_it_is_bound() -> None:
    index = taking_turns()
    for queue, key in (("a", ""), ("b", "1"), ("b", "2"), ("c", "")):
        index.add(Binding("x", queue, "queue", key))
    counts = Counter(
        each.destination for _ in range(300) for each in index.match(b"", BARE_MESSAGE)
    )
    assert counts == {"a": 100, "b": 100, "c": 100}


def test_a_destination_is_there_until_its_last_binding_goes() -> None:
    index = taking_turns()
    bindings = [Binding("x", queue, "queue", key) for queue in "ab" for key in "12"]
    for binding in bindings:
        index.add(binding)
    index.remove(bindings[0])
    assert destinations(index) == {"a", "b"}
    index.remove(bindings[1])
    assert destinations(index) == {"b"}
    index.remove(bindings[2])
    index.remove(bindings[3])
    assert destinations(index) == set()


def destinations(index: RandomIndex) -> set[str]:
    return {each.destination for _ in range(8) for each in index.match(b"", BARE_MESSAGE)}


def test_a_local_exchange_takes_queues_under_an_empty_key_only() -> None:
    index = RandomIndex(lambda below: 0, local=True)
    index.check(Binding("x", "q", "queue", ""))
    with pytest.raises(InvalidBindingArguments, match="Non empty binding 'k' key not permitted"):
        index.check(Binding("x", "q", "queue", "k"))
    with pytest.raises(InvalidBindingArguments, match="only queues"):
        index.check(Binding("x", "y", "exchange", ""))


@pytest.mark.parametrize("type_name", ["x-random", "x-local-random"])
def test_a_choice_is_made_for_each_message_also_behind_another_exchange(type_name: str) -> None:
    table = RoutingTable()
    table.declare(Exchange("r", type_name))
    table.bind(Binding("amq.direct", "r", "exchange", "k"))
    for queue in ("a", "b"):
        table.add_queue(queue, durable=False)
        table.bind(Binding("r", queue, "queue", ""))
    assert table.cached_routes("amq.direct") is None
    assert {table.route("amq.direct", b"k") for _ in range(4)} == {("a",), ("b",)}
