"""Topic patterns in lanes, each listed under its rarest word."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match, with_destination, without_destination
from routelog.exchanges.indexes.topic_lanes import LANES_MAX, KeyWords, LanePattern, PatternLanes
from routelog.exchanges.indexes.topic_pattern import POUND, STAR


class LanedPatterns:
    """Topic patterns whose wildcards a key may match in many combinations.

    A key that lacks a word of a pattern does not match it. So each pattern is listed under one of its words,
    the one with the fewest patterns at that time, and is tried only for keys that have this word.

    The patterns of a word are in groups of 64 lanes; when one is removed, the last one takes its lane.

    Attributes:
        patterns: all patterns, by their text.
    """

    def __init__(self) -> None:
        self.patterns: dict[bytes, LanePattern] = {}
        # None: patterns of wildcards alone.
        self._by_word: dict[bytes | None, list[PatternLanes]] = {}

    def add(self, words: list[bytes], binding: Binding) -> None:
        """Add a binding under its plain pattern."""
        written = b".".join(words)
        pattern = self.patterns.get(written)
        if pattern is None:
            found_by = self._scarcest(words)
            lanes = self._by_word.setdefault(found_by, [])
            if not lanes or len(lanes[-1].patterns) == LANES_MAX:
                lanes.append(PatternLanes())
            pattern = self.patterns[written] = LanePattern(words, found_by, lanes[-1])
            lanes[-1].add(pattern)
        pattern.lanes.lead(pattern, with_destination(pattern.held, binding))

    def remove(self, words: list[bytes], binding: Binding) -> None:
        """Remove a binding from under its plain pattern."""
        written = b".".join(words)
        pattern = self.patterns[written]
        pattern.lanes.lead(pattern, without_destination(pattern.held, binding))
        if pattern.held is not None:
            return
        del self.patterns[written]
        lanes = self._by_word[pattern.found_by]
        last = lanes[-1].remove_last()
        if last is not pattern:
            pattern.lanes.replace(pattern, last)
        if not lanes[-1].patterns:
            lanes.pop()
        if not lanes:
            del self._by_word[pattern.found_by]

    def match(self, words: list[bytes], matched: list[Match]) -> None:
        """Add the destinations of the bindings whose patterns match a key of these words."""
        key: KeyWords | None = None
        for word in (None, *dict.fromkeys(words)):
            for lanes in self._by_word.get(word, ()):
                key = key or KeyWords(words)
                lanes.match(key, matched)

    def _scarcest(self, words: list[bytes]) -> bytes | None:
        literal = dict.fromkeys(word for word in words if word not in (STAR, POUND))
        return min(literal, key=self._commonness, default=None)

    def _commonness(self, word: bytes) -> tuple[int, int]:
        # Of several words without patterns, the longest: long words are more often names, and names are rare.
        lanes = self._by_word.get(word)
        count = (len(lanes) - 1) * LANES_MAX + len(lanes[-1].patterns) if lanes else 0
        return count, -len(word)
