"""Topic patterns that a key may lead through on many ways."""

from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match
from routelog.exchanges.indexes.laned_patterns import LanedPatterns
from routelog.exchanges.indexes.topic_lanes import LANES_MAX
from routelog.exchanges.indexes.topic_pattern import split_words

CRAFTED = 1_000


def binding(pattern: str, queue: str = "") -> Binding:
    return Binding("x", queue or pattern, "queue", pattern)


def laned(*patterns: str) -> LanedPatterns:
    found = LanedPatterns()
    for pattern in patterns:
        found.add(split_words(pattern.encode()), binding(pattern))
    return found


def matched(patterns: LanedPatterns, key: str) -> list[str]:
    found: list[Match] = []
    patterns.match(split_words(key.encode()), found)
    return sorted(matched_names(found))


def crafted(number: int, other: str) -> str:
    """One of many patterns that keys lead through on many ways."""
    pairs = [other if number >> bit & 1 else "#.a" for bit in range(10)]
    return ".".join(["a", *pairs, *["#.a"] * 20, "#"])


class CountingWord(bytes):
    """A word that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        CountingWord.looked_up += 1
        return super().__hash__()


def test_every_split_of_the_key_is_met() -> None:
    patterns = laned("#.a.#.b.#", "a.*.#.b.c.*", "*.#.b.#.*.c", "#.a.#.a.#.a")
    assert matched(patterns, "a.b") == ["#.a.#.b.#"]
    assert matched(patterns, "x.a.a.b.y") == ["#.a.#.b.#"]
    assert matched(patterns, "a.x.b.c.d") == ["#.a.#.b.#", "a.*.#.b.c.*"]
    assert matched(patterns, "a.x.b.b.x.c") == ["#.a.#.b.#", "*.#.b.#.*.c"]
    assert matched(patterns, "a.a.x.a") == ["#.a.#.a.#.a"]
    assert matched(patterns, "a.a") == matched(patterns, "") == []


def test_wildcards_alone_are_found_by_any_key() -> None:
    stars = ".".join("*" * 9)
    patterns = laned(stars, f"{stars}.#")
    assert matched(patterns, ".".join("x" * 8)) == []
    assert matched(patterns, ".".join("x" * 9)) == [stars, f"{stars}.#"]
    assert matched(patterns, ".".join("x" * 10)) == [f"{stars}.#"]


def test_wildcards_inside_a_key_are_words() -> None:
    patterns = laned("#.a.#.b.*")
    assert matched(patterns, "#.a.*.b.#") == ["#.a.#.b.*"]
    assert matched(patterns, "#.a.#.*.*") == []


def test_two_bindings_under_a_pattern_leave_one_by_one() -> None:
    words, both = split_words(b"#.a.#.b"), [binding("#.a.#.b", queue) for queue in ("q", "r")]
    patterns = LanedPatterns()
    for each in both:
        patterns.add(words, each)
    assert matched(patterns, "a.b") == ["q", "r"]
    patterns.remove(words, both[0])
    assert matched(patterns, "a.b") == ["r"]
    patterns.remove(words, both[1])
    assert not patterns.patterns


def test_what_is_removed_leaves_its_lane_to_another() -> None:
    written = [crafted(number, "#.*.b") for number in range(200)]
    key = "a.a.x.b." * 25 + "c"
    patterns = laned(*written)
    before = matched(patterns, key)
    assert len(before) > 20
    for pattern in written[:199:2]:
        patterns.remove(split_words(pattern.encode()), binding(pattern))
    kept = [pattern for pattern in written if pattern not in written[:199:2]]
    assert matched(patterns, key) == [pattern for pattern in before if pattern in kept]
    for lanes in patterns._by_word.values():
        assert [len(each.patterns) for each in lanes[:-1]] == [LANES_MAX] * (len(lanes) - 1)
    for pattern in kept:
        patterns.remove(split_words(pattern.encode()), binding(pattern))
    assert not patterns.patterns
    assert patterns._by_word == {}


def test_64_crafted_patterns_cost_one_look_up_of_each_word_of_a_key() -> None:
    patterns = laned(*(crafted(number, "#.*") for number in range(CRAFTED)))
    key = [CountingWord(b"a") for _ in range(122)]
    CountingWord.looked_up = 0
    patterns.match(key, [])
    # Walked as places of a trie they are four million look-ups.
    assert 0 < CountingWord.looked_up <= 4 * len(key) + CRAFTED / 16


def test_patterns_are_found_by_a_word_that_others_are_not_found_by() -> None:
    patterns = laned(*(f"#.order.#.{number}.#" for number in range(CRAFTED)))
    named = laned(*(f"#.x.#.order{number}.#" for number in range(CRAFTED)))
    assert b"x" not in named._by_word
    CountingWord.looked_up = 0
    found: list[Binding] = []
    patterns.match([CountingWord(word) for word in (b"an", b"order", b"of", b"7")], found)
    assert [each.routing_key for each in found] == ["#.order.#.7.#"]
    assert CountingWord.looked_up <= 30


def test_neighbours_in_lanes_that_match_are_one_match_for_all_of_their_queues() -> None:
    patterns = laned(*(crafted(number, "#.*") for number in range(CRAFTED)))
    found: list[Match] = []
    patterns.match([b"a"] * 122, found)
    assert len(found) == -(-CRAFTED // LANES_MAX)
    assert len(matched_names(found)) == CRAFTED


def test_what_matched_before_is_found_as_it_is_then() -> None:
    words = split_words(b"#.a.#.b")
    patterns = laned("#.a.#.b", "#.a.#.c.#.b", "#.a.#.b.#.b")
    assert matched(patterns, "a.b") == ["#.a.#.b"]
    assert matched(patterns, "a.b.b") == ["#.a.#.b", "#.a.#.b.#.b"]
    patterns.add(words, binding("#.a.#.b", "q"))
    assert matched(patterns, "a.b.b") == ["#.a.#.b", "#.a.#.b.#.b", "q"]
    exchange = Binding("x", "y", "exchange", "#.a.#.b.#.b")
    patterns.add(split_words(b"#.a.#.b.#.b"), exchange)
    patterns.remove(words, binding("#.a.#.b"))
    assert matched(patterns, "a.b.b") == ["#.a.#.b.#.b", "q", "y"]
    patterns.remove(words, binding("#.a.#.b", "q"))
    assert matched(patterns, "a.b.b") == ["#.a.#.b.#.b", "y"]
    patterns.remove(split_words(b"#.a.#.b.#.b"), binding("#.a.#.b.#.b"))
    assert matched(patterns, "a.b.b") == ["y"]
