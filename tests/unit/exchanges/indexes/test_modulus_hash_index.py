"""The modulus hash exchange's index."""

from collections import Counter

import pytest

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.modulus_hash_index import ModulusHashIndex

KEYS = [b"key-%d" % number for number in range(9_000)]
BINDINGS = [Binding("x", queue, "queue", key) for queue, key in (("a", ""), ("b", ""), ("b", "2"))]


def routed(*bindings: Binding) -> list[Binding]:
    index = ModulusHashIndex()
    for binding in bindings:
        index.add(binding)
    return [next(iter(index.match(key, BARE_MESSAGE))) for key in KEYS]


def test_every_binding_is_a_share() -> None:
    counts = Counter(binding.destination for binding in routed(*BINDINGS))
    assert counts["b"] == pytest.approx(2 * counts["a"], rel=0.1)


def test_the_order_of_bindings_does_not_matter() -> None:
    assert routed(*BINDINGS) == routed(*reversed(BINDINGS))


def test_a_removed_binding_gets_nothing() -> None:
    index = ModulusHashIndex()
    for binding in BINDINGS:
        index.add(binding)
    index.remove(BINDINGS[1])
    assert {next(iter(index.match(key, BARE_MESSAGE))) for key in KEYS} == {
        BINDINGS[0],
        BINDINGS[2],
    }
    for binding in (BINDINGS[0], BINDINGS[2]):
        index.remove(binding)
    assert list(index.match(b"k", BARE_MESSAGE)) == []
