"""The topic exchange: patterns of words, with wildcards for one word and for any number."""

from exchanges.binding import Binding
from exchanges.direct_index import DirectIndex
from exchanges.message import Message
from exchanges.names import key_bytes
from exchanges.topic_pattern import has_wildcard, split_words
from exchanges.topic_trie import TopicTrie


class TopicIndex:
    """Patterns without a wildcard by whole key, the others in a trie.

    Most topic bindings are whole keys in practice: a hash look-up finds them, and they need no
    place in the trie for each of their words.
    """

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._whole_keys = DirectIndex()
        self._trie = TopicTrie()

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding under its pattern."""
        words = split_words(key_bytes(binding.routing_key))
        if has_wildcard(words):
            self._trie.add(words, binding)
        else:
            self._whole_keys.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from under its pattern."""
        words = split_words(key_bytes(binding.routing_key))
        if has_wildcard(words):
            self._trie.remove(words, binding)
        else:
            self._whole_keys.remove(binding)

    def match(self, routing_key: bytes, message: Message) -> list[Binding]:
        """Return the bindings whose patterns match the key."""
        matched: list[Binding] = self._trie.match(split_words(routing_key))
        matched += self._whole_keys.match(routing_key, message)
        return matched
