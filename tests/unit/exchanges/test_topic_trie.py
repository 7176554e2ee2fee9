"""The trie of topic patterns."""

from exchanges.binding import Binding
from exchanges.topic_pattern import split_words
from exchanges.topic_trie import TopicTrie


def bound(*patterns: str) -> TopicTrie:
    trie = TopicTrie()
    for pattern in patterns:
        trie.add(split_words(pattern.encode()), binding(pattern))
    return trie


def binding(pattern: str) -> Binding:
    return Binding("x", "q", "queue", pattern)


def matched(trie: TopicTrie, key: str) -> set[str]:
    return {found.routing_key for found in trie.match(split_words(key.encode()))}


def test_star_is_one_word_and_pound_any_number() -> None:
    trie = bound("a.*", "a.#", "#", "*.b", "*")
    assert matched(trie, "a.b") == {"a.*", "a.#", "#", "*.b"}
    assert matched(trie, "a") == {"a.#", "#", "*"}
    assert matched(trie, "") == {"#"}
    assert matched(trie, "a.b.c") == {"a.#", "#"}
    assert matched(trie, ".b") == {"#", "*.b"}


def test_several_pounds_meet_every_split_of_the_key() -> None:
    trie = bound("#.a.#.b.#")
    for key in ("a.b", "x.a.b", "a.x.b.y", "a.a.b.b"):
        assert matched(trie, key) == {"#.a.#.b.#"}
    for key in ("b.a", "a", "b", ""):
        assert matched(trie, key) == set()


def test_wildcards_inside_a_key_are_words() -> None:
    trie = bound("a.*", "a.#", "a.b.*")
    assert matched(trie, "a.*") == {"a.*", "a.#"}
    assert matched(trie, "a.#") == {"a.*", "a.#"}
    assert matched(trie, "*.b") == set()


def test_a_hundred_pounds_cost_no_more_than_their_length() -> None:
    pattern = ".".join(["#", "a"] * 50 + ["b"])
    places_visited = 0

    class CountingWord(bytes):
        def __hash__(self) -> int:
            nonlocal places_visited
            places_visited += 1
            return super().__hash__()

    trie = bound(pattern)
    assert not list(trie.match([CountingWord(b"a") for _ in range(120)]))
    # One look-up in each of about 100 places for each of 120 words.
    assert 0 < places_visited <= 101 * 120


def test_removing_the_last_binding_leaves_an_empty_trie() -> None:
    patterns = ["a.*.c", "a.*", "a.#.b", "#", "*.#", "#.*"]
    trie = bound(*patterns)
    for pattern in patterns:
        trie.remove(split_words(pattern.encode()), binding(pattern))
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
    assert list(trie.match([b"a", b"z"])) == [other]


def test_removing_what_is_not_there_leaves_nothing_behind() -> None:
    trie = bound("a.*")
    trie.remove([b"b", b"#"], binding("b.#"))
    assert list(trie._root.children) == [b"a"]
