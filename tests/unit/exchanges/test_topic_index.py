"""The topic exchange's index: whole keys and patterns together."""

from exchanges.binding import Binding
from exchanges.message import BARE_MESSAGE
from exchanges.topic_index import TopicIndex


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


def test_the_empty_pattern_matches_the_empty_key_alone() -> None:
    index = TopicIndex()
    empty = Binding("x", "q", "queue", "")
    index.add(empty)
    assert list(index.match(b"", BARE_MESSAGE)) == [empty]
    assert list(index.match(b".", BARE_MESSAGE)) == []
