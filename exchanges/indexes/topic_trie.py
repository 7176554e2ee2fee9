# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A trie over the words of topic patterns, walked as a set of places at once.

Each word of a key moves on from every node reached so far; a node reached by several paths counts once. The
number of nodes reached at once grows with the words and wildcards of patterns, so patterns with many wildcards
are not in the trie (`topic_pattern.is_winding`).
"""

import cython

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    Held,
    Match,
    with_destination,
    without_destination,
)
from routelog.exchanges.indexes.topic_pattern import POUND, STAR


@cython.final
@cython.cclass
class TopicPlace:
    """A node of the trie, after some words of a pattern: the bindings that end here, and the next words."""

    def __init__(self, is_pound: bool) -> None:
        self.children: dict[bytes, TopicPlace] = {}
        self.star: TopicPlace | None = None
        self.pound: TopicPlace | None = None
        self.held: Held = None
        self.is_pound = is_pound

    def child(self, word: bytes) -> "TopicPlace":
        """Return the node after one more word of a pattern, made when missing."""
        if word == STAR:
            self.star = self.star or TopicPlace(is_pound=False)
            return self.star
        if word == POUND:
            self.pound = self.pound or TopicPlace(is_pound=True)
            return self.pound
        place = self.children.get(word)
        if place is None:
            place = self.children[word] = TopicPlace(is_pound=False)
        return place

    def drop(self, word: bytes) -> None:
        """Remove the node after a word of a pattern."""
        if word == STAR:
            self.star = None
        elif word == POUND:
            self.pound = None
        else:
            del self.children[word]

    def is_needed(self) -> bool:
        """Tell whether a binding ends here or in a node below."""
        return bool(self.held is not None or self.children or self.star or self.pound)


class TopicTrie:
    """Topic patterns with the bindings that carry them."""

    def __init__(self) -> None:
        self._root = TopicPlace(is_pound=False)

    def add(self, words: list[bytes], binding: Binding) -> None:
        """Add a binding under its plain pattern."""
        place = self._root
        for word in words:
            place = place.child(word)
        place.held = with_destination(place.held, binding)

    def remove(self, words: list[bytes], binding: Binding) -> None:
        """Remove a binding, and the nodes that only it needed."""
        trail = [(b"", self._root)]
        for word in words:
            trail.append((word, trail[-1][1].child(word)))
        last = trail[-1][1]
        last.held = without_destination(last.held, binding)
        while len(trail) > 1:
            word, place = trail.pop()
            if place.is_needed():
                return
            trail[-1][1].drop(word)

    @cython.locals(words=list, places=list, place=TopicPlace, matched=list)
    def match(self, words: list[bytes]) -> list[Match]:
        """Return the destinations of the bindings whose patterns match a key of these words."""
        places: list[TopicPlace] = []
        matched: list[Match] = []
        _reach(self._root, places, matched)
        for word in words:
            places = _places_after(places, word, matched)
            if not places:
                break
        for place in places:
            if place.held is not None:
                matched.append(place.held)
        return matched


@cython.cfunc
@cython.returns(list)
@cython.locals(places=list, matched=list, following=list, place=TopicPlace, after=TopicPlace)
def _places_after(places: list[TopicPlace], word: bytes, matched: list[Match]) -> list[TopicPlace]:
    following: list[TopicPlace] = []
    for place in places:
        if place.is_pound:
            following.append(place)
        if place.star is not None:
            _reach(place.star, following, matched)
        after = place.children.get(word)
        if after is not None:
            _reach(after, following, matched)
    # Only with several nodes can two paths lead to one.
    return following if len(following) < 2 else list(dict.fromkeys(following))


@cython.cfunc
@cython.locals(place=TopicPlace, pound=TopicPlace, places=list, matched=list)
def _reach(place: TopicPlace, places: list[TopicPlace], matched: list[Match]) -> None:
    """Add a place, and the one behind a `#` that takes no word. A `#` at the end takes whatever follows."""
    places.append(place)
    pound = place.pound
    if pound is not None:
        if pound.children or pound.star is not None:
            places.append(pound)
        elif pound.held is not None:
            matched.append(pound.held)
