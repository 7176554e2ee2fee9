"""Words and wildcards of topic patterns."""

import pytest

from routelog.exchanges.indexes.topic_pattern import (
    has_wildcard,
    is_winding,
    plain_pattern,
    split_words,
)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a.b", [b"a", b"b"]),
        (b"a.", [b"a", b""]),
        (b".", [b"", b""]),
        (b"\xff.b", [b"\xff", b"b"]),
    ],
)
def test_words_stand_between_dots(key: bytes, words: list[bytes]) -> None:
    assert split_words(key) == words


def test_only_a_whole_word_is_a_wildcard() -> None:
    assert has_wildcard([b"a", b"*"])
    assert has_wildcard([b"#"])
    assert not has_wildcard([b"a*", b"##", b""])


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        (b"a.b", b"a.b"),
        (b"#.#.#", b"#"),
        (b"#.*", b"*.#"),
        (b"#.*.#.*", b"*.*.#"),
        (b"*.*", b"*.*"),
        (b"#.a.#", b"#.a.#"),
        (b"a.#.*.b.*.#", b"a.*.#.b.*.#"),
    ],
)
def test_runs_of_wildcards_take_one_plain_form(pattern: bytes, plain: bytes) -> None:
    assert plain_pattern(split_words(pattern)) == split_words(plain)


def test_patterns_are_winding_by_their_words_and_pounds() -> None:
    for pattern in (
        "*.a.*.a.*.a.*.a.*.a",
        "a.b.c.d.e.f.g.h.i.#",
        "#.a.b.c",
        "a.#.b.c",
        "*.*.#.a",
        "#.a",
        "#",
    ):
        assert not is_winding(split_words(pattern.encode()))
    for pattern in (
        "*.a.*.a.*.a.*.a.*.a.b",
        "a.b.c.d.e.f.g.h.i.j.#",
        "#.a.b.c.d",
        "a.#.b.c.d",
        "#.a.#",
        "#.a.#.b",
    ):
        assert is_winding(split_words(pattern.encode()))
