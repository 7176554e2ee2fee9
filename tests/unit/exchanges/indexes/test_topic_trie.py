"""The trie of topic patterns."""

from itertools import product

from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.topic_pattern import (
    DIRECT_WORDS_MAX,
    is_winding,
    plain_pattern,
    split_words,
)
from routelog.exchanges.indexes.topic_trie import TopicTrie


def bound(*patterns: str) -> TopicTrie:
    trie = TopicTrie()
    for pattern in patterns:
        trie.add(plain_pattern(split_words(pattern.encode())), binding(pattern))
    return trie


def binding(pattern: str) -> Binding:
    return Binding("x", pattern, "queue", pattern)


def matched(trie: TopicTrie, key: str) -> set[str]:
    return set(matched_names(trie.match(split_words(key.encode()))))


def test_star_is_one_word_and_pound_any_number() -> None:
    trie = bound("a.*", "a.#", "#", "*.b", "*")
    assert matched(trie, "a.b") == {"a.*", "a.#", "#", "*.b"}
    assert matched(trie, "a") == {"a.#", "#", "*"}
    assert matched(trie, "") == {"#"}
    assert matched(trie, "a.b.c") == {"a.#", "#"}
    assert matched(trie, ".b") == {"#", "*.b"}


def test_wildcards_inside_a_key_are_words() -> None:
    trie = bound("a.*", "a.#", "a.b.*")
    assert matched(trie, "a.*") == {"a.*", "a.#"}
    assert matched(trie, "a.#") == {"a.*", "a.#"}
    assert matched(trie, "*.b") == set()


def test_all_patterns_that_are_not_winding_cost_together_what_is_said() -> None:
    looked_up = 0

    class CountingWord(bytes):
        def __hash__(self) -> int:
            nonlocal looked_up
            looked_up += 1
            return super().__hash__()

    trie = TopicTrie()
    ends = [
        (*some, *end)
        for length in range(DIRECT_WORDS_MAX + 1)
        for some in product((b"a", b"*"), repeat=length)
        for end in ((), (b"#",))
    ]
    mixed = [some for length in range(5) for some in product((b"a", b"*", b"#"), repeat=length)]
    written = (tuple(plain_pattern(list(some))) for some in ends + mixed)
    plain = {pattern for pattern in written if not is_winding(list(pattern))}
    for number, pattern in enumerate(sorted(plain)):
        trie.add(list(pattern), binding(f"{number}"))
    assert len(plain) > 3_000
    key = [CountingWord(b"a")] * 128
    assert len(trie.match(key)) > 1_000
    # Once each place without `#` before it, for one word; those behind a `#` for each word.
    assert 2_000 < looked_up <= 2_047 + 60 * len(key)


def test_a_pound_at_the_end_is_met_once() -> None:
    trie = bound("a.#", "*.#", "#", "a.#.b", "#.b")
    key = "a" + ".b" * 20
    assert matched(trie, key) == {"a.#", "*.#", "#", "a.#.b", "#.b"}
    assert len(trie.match(split_words(key.encode()))) == 5


def test_removing_the_last_binding_leaves_an_empty_trie() -> None:
    patterns = ["a.*.c", "a.*", "a.#.b", "#", "*.#", "#.*"]
    trie = bound(*patterns)
    for pattern in patterns:
        trie.remove(plain_pattern(split_words(pattern.encode())), binding(pattern))
        assert pattern not in matched(trie, "a.b")
    assert trie._root.children == {}


def test_removing_a_pattern_keeps_longer_and_shorter_ones() -> None:
    trie = bound("a.*", "a.*.c", "a.*.c.#")
    trie.remove(split_words(b"a.*.c"), binding("a.*.c"))
    assert matched(trie, "a.b.c") == {"a.*.c.#"}
    assert matched(trie, "a.b") == {"a.*"}
    trie.remove(split_words(b"a.*"), binding("a.*"))
    assert matched(trie, "a.b.c") == {"a.*.c.#"}


def test_removing_one_of_two_bindings_under_a_pattern_keeps_the_other() -> None:
    trie = bound("a.*")
    other = Binding("x", "other", "queue", "a.*")
    trie.add([b"a", b"*"], other)
    trie.remove([b"a", b"*"], binding("a.*"))
    assert matched(trie, "a.z") == {"other"}


def test_removing_what_is_not_there_leaves_nothing_behind() -> None:
    trie = bound("a.*")
    trie.remove([b"b", b"#"], binding("b.#"))
    assert list(trie._root.children) == [b"a"]
