"""The topic exchange's index: whole keys and patterns together."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.topic_index import TopicIndex


def test_whole_keys_and_patterns_match_together_and_can_be_removed() -> None:
    index = TopicIndex()
    whole = Binding("x", "q1", "queue", "a.b")
    pattern = Binding("x", "q2", "queue", "a.*")
    for binding in (whole, pattern):
        index.add(binding)
    assert set(index.match(b"a.b", BARE_MESSAGE)) == {whole, pattern}
    assert set(index.match(b"a.c", BARE_MESSAGE)) == {pattern}
    index.remove(pattern)
    assert set(index.match(b"a.b", BARE_MESSAGE)) == {whole}
    index.remove(whole)
    assert set(index.match(b"a.b", BARE_MESSAGE)) == set()


def test_patterns_that_wind_match_with_the_others_and_are_no_places_of_the_trie() -> None:
    index = TopicIndex()
    written = ("a.*.c", "a.#.#.b.#.*", "#.a.*.#.b.*", "a.x.c")
    bindings = {key: Binding("x", "q", "queue", key) for key in written}
    for binding in bindings.values():
        index.add(binding)
    assert list(index._winding.patterns) == [b"a.#.b.*.#", b"#.a.*.#.b.*"]
    assert set(index.match(b"a.x.b.c", BARE_MESSAGE)) == {bindings[key] for key in written[1:3]}
    assert set(index.match(b"a.x.c", BARE_MESSAGE)) == {bindings[key] for key in written[::3]}
    for key in written[1:3]:
        index.remove(bindings[key])
        assert bindings[key] not in index.match(b"a.x.b.c", BARE_MESSAGE)
    assert not index._winding.patterns


def test_the_empty_pattern_matches_the_empty_key_alone() -> None:
    index = TopicIndex()
    empty = Binding("x", "q", "queue", "")
    index.add(empty)
    assert list(index.match(b"", BARE_MESSAGE)) == [empty]
    assert list(index.match(b".", BARE_MESSAGE)) == []
