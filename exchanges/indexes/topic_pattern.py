"""Routing keys of topic exchanges as words, and their two wildcards."""

from collections.abc import Iterator

STAR = b"*"  # exactly one word
POUND = b"#"  # any number of words, none included

# Limits for the trie: patterns with more words may lead a key to too many of its nodes. All patterns within the
# limits together cost a key of 128 words 0.3 ms at most.
DIRECT_WORDS_MAX = 10  # of a pattern with `#` at its end only, or without `#`
WINDING_WORDS_MAX = 4  # of a pattern with `#` elsewhere


def split_words(routing_key: bytes) -> list[bytes]:
    """Return the words between the dots. The empty key has no word, `a.` has two."""
    return routing_key.split(b".") if routing_key else []


def has_wildcard(words: list[bytes]) -> bool:
    """Tell whether a pattern can match more than the key that is written like it."""
    return STAR in words or POUND in words


def is_winding(words: list[bytes]) -> bool:
    """Tell whether a key may match the wildcards of a pattern in too many combinations for a trie.

    Each `*` doubles the number of nodes that a word of a key may reach, and behind a `#` this begins again with
    every word. In a trie of all other patterns, a key reaches at most some 1,100 nodes at once.
    """
    if POUND in words[:-1]:
        return len(words) > WINDING_WORDS_MAX or words.count(POUND) > 1
    return len(words) > DIRECT_WORDS_MAX


def plain_pattern(words: list[bytes]) -> list[bytes]:
    """Return an equivalent pattern, in which each run of wildcards has its `*` first, and at most one `#`.

    A run such as `#.*.#.*` means two words or more, so it becomes `*.*.#`. So equal patterns share one node of
    the trie.
    """
    return list(_plain_words(words))


def _plain_words(words: list[bytes]) -> Iterator[bytes]:
    stars, pound = 0, False
    for word in words:
        if word == STAR:
            stars += 1
        elif word == POUND:
            pound = True
        else:
            yield from _plain_run(stars, pound)
            yield word
            stars, pound = 0, False
    yield from _plain_run(stars, pound)


def _plain_run(stars: int, pound: bool) -> list[bytes]:
    return [STAR] * stars + [POUND] * pound
