"""The pattern of a LIKE: `%` is any text, `_` one character, and an escape character makes either plain."""

import re

_ANY_TEXT, _ANY_CHARACTER = "%", "_"


class LikePattern:
    """A pattern, as pieces between its `%`: a text is looked through once, whatever the pattern.

    A piece between two `%` may lie anywhere, so it has no `_`: finding one that has is slow.

    Attributes:
        literal: the longest text that all that match contain.
    """

    def __init__(self, pattern: str, escape: str | None) -> None:
        """Read a pattern.

        Raises:
            ValueError: nothing follows an escape character, or there is a `_` between two `%`.
        """
        pieces: list[list[str | None]] = [[]]  # characters; None: any one
        characters = iter(pattern)
        for each in characters:
            if each == escape:
                following = next(characters, None)
                if following is None:
                    raise ValueError("nothing follows the escape character")
                pieces[-1].append(following)
            elif each == _ANY_TEXT:
                pieces.append([])
            else:
                pieces[-1].append(None if each == _ANY_CHARACTER else each)
        middle = ["".join(filter(None, piece)) for piece in pieces[1:-1]]
        if any(None in piece for piece in pieces[1:-1]):
            raise ValueError("'_' stands between two '%'")
        self._begin, self._middle, self._end = _matcher(pieces[0]), middle, _matcher(pieces[-1])
        self._end_characters = len(pieces[-1])
        self._is_whole = len(pieces) == 1
        runs = ("".join("\0" if c is None else c for c in piece).split("\0") for piece in pieces)
        self.literal = max((run for piece in runs for run in piece), key=len)

    def matches(self, text: str) -> bool:
        """Whether the whole text is as the pattern says."""
        if self._is_whole:
            return self._begin.fullmatch(text) is not None
        begin = self._begin.match(text)
        if begin is None:
            return False
        at = begin.end()
        for piece in self._middle:
            found = text.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        end = len(text) - self._end_characters
        return end >= at and self._end.match(text, end) is not None


def _matcher(piece: list[str | None]) -> re.Pattern[str]:
    return re.compile("".join("." if each is None else re.escape(each) for each in piece), re.S)
