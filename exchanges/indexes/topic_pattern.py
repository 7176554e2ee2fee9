"""Routing keys of topic exchanges as words, and their two wildcards."""

from collections.abc import Iterator

STAR = b"*"  # exactly one word
POUND = b"#"  # any number of words, none included

# Of patterns with more words, a key may reach too many places of a trie: where `#` is at the end only, and
# where one is elsewhere. All others together cost a key of 128 words 0.3 ms at most.
DIRECT_WORDS_MAX = 10
WINDING_WORDS_MAX = 4


def split_words(routing_key: bytes) -> list[bytes]:
    """Return the words between the dots. The empty key has no word, `a.` has two."""
    return routing_key.split(b".") if routing_key else []


def has_wildcard(words: list[bytes]) -> bool:
    """Tell whether a pattern can match more than the key that is written like it."""
    return STAR in words or POUND in words


def is_winding(words: list[bytes]) -> bool:
    """Tell whether a key may match the wildcards of a pattern in too many combinations for a trie.

    Each `*` doubles the places of a trie that a word of a key may have reached, and behind a `#` it all begins
    again with every word. Of all others together, a key has reached some 1,100 places at once at most.
    """
    if POUND in words[:-1]:
        return len(words) > WINDING_WORDS_MAX or words.count(POUND) > 1
    return len(words) > DIRECT_WORDS_MAX


def plain_pattern(words: list[bytes]) -> list[bytes]:
    """Return the pattern that matches the same keys with each run of wildcards in one plain form.

    A run such as `#.*.#.*` asks for two words or more, so it reads `*.*.#`. Of all orders of
    the same wildcards one stays, no `#` is followed by another wildcard, and equal patterns
    share one place in the trie.
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


def _plain_run(stars: int, pound: bool) -> Iterator[bytes]:
    for _ in range(stars):
        yield STAR
    if pound:
        yield POUND
