# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Up to 64 topic patterns side by side, each in its own bit of all numbers: its lane.

A pattern of n words beside its `#` is in some of the states 0 to n: state k says that k words of it have
matched some words of the key. `#` is no state; it lets a lane stay in its state. So a word of a key moves all
lanes with a few operations for each state, however many combinations the wildcards allow.

Source:
    Baeza-Yates and Gonnet, "A new approach to text searching" (1992), with a bit for each pattern and a number
    for each state instead of a bit for each state.
"""

from array import array

import cython

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Destinations, Held, Match
from routelog.exchanges.indexes.topic_pattern import POUND, STAR

LANES_MAX = 64

_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class LanePattern:
    """A plain pattern and the destinations of its bindings.

    Attributes:
        found_by: the word under which the pattern is listed, None: it is tried for every key.
        held: change it by `PatternLanes.lead` only.
        lanes, lane: the lane of the pattern.
    """

    def __init__(self, words: list[bytes], found_by: bytes | None, lanes: "PatternLanes") -> None:
        self.words = words
        self.found_by = found_by
        self.held: Held = None
        self.lanes = lanes
        self.lane = 0


@cython.final
@cython.cclass
class WordLanes:
    """The lanes that one word moves on, state after state."""

    def __init__(self, state: int, more: "WordLanes | None") -> None:
        self.state = state
        self.lanes = 0
        self.more = more


@cython.final
@cython.cclass
class KeyWords:
    """The words of a key, each different one with a number, and room to walk with them.

    Attributes:
        distinct: the different words, by number.
        numbers: those of the key's words.
        columns: by number, where the lanes that a word moves on stand in `room`.
        room: of 64 bits each, for one walk after the other.
    """

    @cython.locals(known=dict, distinct=list)
    def __init__(self, words: list[bytes]) -> None:
        self.distinct = list(dict.fromkeys(words))
        known = {word: number for number, word in enumerate(self.distinct)}
        self.numbers = array("i", [known[word] for word in words])
        self.columns = array("i", bytes(4 * len(self.distinct)))
        self.room = array("Q")


@cython.final
@cython.cclass
class PatternLanes:
    """Patterns in lanes, from the first lane on.

    The matched patterns that lead to one queue each are one match, which is cached for the next key: 10,000
    patterns and bindings lie scattered in memory.
    """

    def __init__(self) -> None:
        self.patterns: list[LanePattern] = []
        self._queues: list[str | None] = []  # by lane, of patterns that lead to one queue only
        self._hits = 0  # the lanes that matched last, until something changes
        self._matched: list[Match] = []  # the destinations of `_hits`
        self._words: dict[bytes, WordLanes] = {}
        # By state, the lanes that any word moves on from it, that stay in it, and that end in it.
        self._stars = array("Q", (0,))
        self._loops = array("Q", (0,))
        self._ends = array("Q", (0,))

    @cython.locals(pattern=LanePattern)
    def add(self, pattern: LanePattern) -> None:
        """Give a pattern the next lane; there must be one."""
        self.patterns.append(pattern)
        self._queues.append(None)
        self._set(pattern, len(self.patterns) - 1)

    @cython.locals(pattern=LanePattern)
    def remove_last(self) -> LanePattern:
        """Take the pattern in the last lane out, and return it."""
        pattern = self.patterns.pop()
        self._queues.pop()
        self._clear(pattern)
        return pattern

    @cython.locals(pattern=LanePattern)
    def lead(self, pattern: LanePattern, held: Held) -> None:
        """Set the destinations of a pattern, whenever a binding was added or removed."""
        pattern.held = held
        self._forget()
        queue: str | None = None
        if isinstance(held, Binding) and held.destination_kind == "queue":
            queue = held.destination
        self._queues[pattern.lane] = queue

    @cython.locals(pattern=LanePattern, other=LanePattern)
    def replace(self, pattern: LanePattern, other: LanePattern) -> None:
        """Give the lane of a pattern to another one."""
        self._clear(pattern)
        self.patterns[pattern.lane] = other
        self._set(other, pattern.lane)

    @cython.locals(pattern=LanePattern, bit=cython.ulonglong, state=cython.Py_ssize_t)
    def _set(self, pattern: LanePattern, lane: int) -> None:
        pattern.lanes, pattern.lane = self, lane
        bit = 1
        bit <<= pattern.lane
        state = 0
        for word in pattern.words:
            if word == POUND:
                self._loops[state] |= bit
                continue
            if word == STAR:
                self._stars[state] |= bit
            else:
                _add_word(self._words, word, state, bit)
            state += 1
            if state == len(self._ends):
                self._stars.append(0)
                self._loops.append(0)
                self._ends.append(0)
        self._ends[state] |= bit
        self.lead(pattern, pattern.held)

    @cython.locals(
        pattern=LanePattern,
        bit=cython.ulonglong,
        others=cython.ulonglong,
        state=cython.Py_ssize_t,
    )
    def _clear(self, pattern: LanePattern) -> None:
        bit = 1
        bit <<= pattern.lane
        others = _ALL ^ bit
        state = 0
        for word in pattern.words:
            if word == POUND:
                self._loops[state] &= others
                continue
            if word == STAR:
                self._stars[state] &= others
            else:
                _drop_word(self._words, word, state, others)
            state += 1
        self._ends[state] &= others
        self._forget()

    @cython.cfunc
    def _forget(self) -> None:
        self._hits, self._matched = 0, []

    @cython.boundscheck(False)
    @cython.locals(
        key=KeyWords,
        matched=list,
        stars=cython.ulonglong[::1],
        loops=cython.ulonglong[::1],
        ends=cython.ulonglong[::1],
        room=cython.ulonglong[::1],
        numbers=cython.int[::1],
        columns=cython.int[::1],
        words=dict,
        distinct=list,
        found=WordLanes,
        states=cython.Py_ssize_t,
        used=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        step=cython.Py_ssize_t,
        reach=cython.Py_ssize_t,
        old=cython.Py_ssize_t,
        new=cython.Py_ssize_t,
        column=cython.Py_ssize_t,
        number=cython.Py_ssize_t,
        here=cython.ulonglong,
        alive=cython.ulonglong,
        hits=cython.ulonglong,
    )
    def match(self, key: KeyWords, matched: list[Match]) -> None:
        """Add the destinations of the bindings whose patterns match a key; there must be a pattern.

        Cost:
            (words of the key) x (words of the longest pattern) x 0.4 ns, and 25 ns for each word.
        """
        states = len(self._ends)
        words, distinct = self._words, key.distinct
        needed = states * (3 + min(len(words), len(distinct)))
        if len(key.room) < needed:
            key.room = array("Q", bytes(8 * needed))
        stars, loops, ends = self._stars, self._loops, self._ends
        room, numbers, columns = key.room, key.numbers, key.columns
        # Two rows of states that take turns; then, by state, the lanes that a word moves on which no pattern
        # has, and so for each word of the key that one has.
        for at in range(states):
            room[at] = room[states + at] = 0
            room[2 * states + at] = stars[at]
        used = 3 * states
        for number in range(len(distinct)):
            found = words.get(distinct[number])
            if found is None:
                columns[number] = 2 * states
                continue
            columns[number] = used
            for at in range(states):
                room[used + at] = stars[at]
            while found is not None:
                room[used + found.state] |= found.lanes
                found = found.more
            used += states
        old, new = 0, states
        room[old] = _ALL >> (64 - len(self.patterns))
        reach = 0
        for step in range(len(key.numbers)):
            column = columns[numbers[step]]
            if reach < states - 1:
                reach += 1
            alive = room[new] = room[old] & loops[0]
            for at in range(1, reach + 1):
                here = room[old + at] & loops[at] | room[old + at - 1] & room[column + at - 1]
                room[new + at] = here
                alive |= here
            if not alive:
                return
            old, new = new, old
        hits = 0
        for at in range(states):
            hits |= room[old + at] & ends[at]
        if hits:
            matched += self._led_to(hits)

    @cython.cfunc
    @cython.returns(list)
    @cython.locals(hits=cython.ulonglong, lane=cython.Py_ssize_t, queues=list, pattern=LanePattern)
    def _led_to(self, hits: int) -> list[Match]:
        if hits == self._hits:
            return self._matched
        queues: list[str] = []
        self._hits, self._matched = hits, []
        for lane in range(len(self.patterns)):
            if not hits >> lane & 1:
                continue
            queue = self._queues[lane]
            if queue is not None and hits & (hits - 1):
                queues.append(queue)
                continue
            pattern = self.patterns[lane]
            if pattern.held is not None:
                self._matched.append(pattern.held)
        if queues:
            self._matched.append(Destinations.of_queues(queues))
        return self._matched


@cython.cfunc
@cython.locals(
    words=dict, state=cython.Py_ssize_t, bit=cython.ulonglong, first=WordLanes, found=WordLanes
)
def _add_word(words: dict[bytes, WordLanes], word: bytes, state: int, bit: int) -> None:
    first = words.get(word)
    found = first
    while found is not None and found.state != state:
        found = found.more
    if found is None:
        found = words[word] = WordLanes(state, first)
    found.lanes |= bit


@cython.cfunc
@cython.locals(
    words=dict, state=cython.Py_ssize_t, others=cython.ulonglong, before=WordLanes, found=WordLanes
)
def _drop_word(words: dict[bytes, WordLanes], word: bytes, state: int, others: int) -> None:
    before = None
    found = words[word]
    while found.state != state:
        before, found = found, cython.cast(WordLanes, found.more)
    found.lanes &= others
    if not found.lanes:
        if before is not None:
            before.more = found.more
        elif found.more is not None:
            words[word] = found.more
        else:
            del words[word]
