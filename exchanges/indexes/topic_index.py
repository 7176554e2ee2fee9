"""The topic exchange: patterns of words, with wildcards for one word and for any number."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match
from routelog.exchanges.bindings.names import key_bytes
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.indexes.direct_index import DirectIndex
from routelog.exchanges.indexes.laned_patterns import LanedPatterns
from routelog.exchanges.indexes.topic_pattern import (
    has_wildcard,
    is_winding,
    plain_pattern,
    split_words,
)
from routelog.exchanges.indexes.topic_trie import TopicTrie


class TopicIndex:
    """Patterns without a wildcard by whole key, most others in a trie, and winding ones in lanes.

    In practice most topic bindings have no wildcard: a hash look-up finds them, and they need no nodes in the
    trie.
    """

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._whole_keys = DirectIndex()
        self._trie = TopicTrie()
        self._winding = LanedPatterns()

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding under its pattern."""
        words = split_words(key_bytes(binding.routing_key))
        if has_wildcard(words):
            plain = plain_pattern(words)
            self._index_of(plain).add(plain, binding)
        else:
            self._whole_keys.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from under its pattern."""
        words = split_words(key_bytes(binding.routing_key))
        if has_wildcard(words):
            plain = plain_pattern(words)
            self._index_of(plain).remove(plain, binding)
        else:
            self._whole_keys.remove(binding)

    def match(self, routing_key: bytes, message: Message) -> list[Match]:
        """Return the destinations of the bindings whose patterns match the key."""
        words = split_words(routing_key)
        matched: list[Match] = self._trie.match(words)
        if self._winding.patterns:
            self._winding.match(words, matched)
        matched += self._whole_keys.match(routing_key, message)
        return matched

    def _index_of(self, plain: list[bytes]) -> TopicTrie | LanedPatterns:
        return self._winding if is_winding(plain) else self._trie
