"""A picture of an exchange's bindings: what leads to it on the left, where it leads on the right."""

from collections.abc import Sequence
from dataclasses import dataclass

from routelog.management.calls.answer import Row

BINDINGS_MAX = 50  # of both sides: a taller picture is no overview
ROW_HEIGHT = 30
BOX_WIDTH, BOX_HEIGHT = 230, 22
LINE_WIDTH = 230  # has room for a key
CHARACTERS_MAX = 28  # of a name or key: they are cut, and whole in the tables below
_MARGIN = 4


@dataclass(frozen=True, slots=True)
class Box:
    """A queue or exchange."""

    kind: str
    name: str
    x: int
    y: int

    @property
    def middle(self) -> int:
        """Height at which lines meet the box."""
        return self.y + BOX_HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Line:
    """A binding, from the right of one box to the left of another.

    Attributes:
        key_x, key_y: the middle of the key: near the outer box, as all lines meet at the exchange.
    """

    key: str
    key_x: int
    key_y: int
    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class BindingPicture:
    """The picture; there is room for `BINDINGS_MAX` lines."""

    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[Line]


def binding_picture(name: str, coming: Sequence[Row], leaving: Sequence[Row]) -> BindingPicture:
    """The picture of an exchange.

    Args:
        name: as it is shown.
        coming: rows of the API, of bindings to it; `leaving`, of those from it.
    """
    drawn_leaving = leaving[: BINDINGS_MAX - min(len(coming), BINDINGS_MAX // 2)]
    drawn_coming = coming[: BINDINGS_MAX - len(drawn_leaving)]
    rows = max(len(drawn_coming), len(drawn_leaving), 1)
    column = BOX_WIDTH + LINE_WIDTH
    x = _MARGIN + (column if drawn_coming else 0)
    own = Box("exchange", _cut(name), x, _MARGIN + (rows - 1) * ROW_HEIGHT // 2)
    boxes, lines = [own], list[Line]()
    for at, each in enumerate(drawn_coming):
        box = Box("exchange", _cut(each["source"]), _MARGIN, _MARGIN + at * ROW_HEIGHT)
        boxes.append(box)
        lines.append(_line(each, box, own, 3))
    for at, each in enumerate(drawn_leaving):
        kind, place = each["destination_type"], _MARGIN + at * ROW_HEIGHT
        box = Box(kind, _cut(each["destination"]), x + column, place)
        boxes.append(box)
        lines.append(_line(each, own, box, 7))
    return BindingPicture(
        max(box.x for box in boxes) + BOX_WIDTH + _MARGIN,
        2 * _MARGIN + (rows - 1) * ROW_HEIGHT + BOX_HEIGHT,
        boxes,
        lines,
    )


def _line(binding: Row, begin: Box, end: Box, tenths: int) -> Line:
    x, y = begin.x + BOX_WIDTH, begin.middle
    key_x = x + (end.x - x) * tenths // 10
    key_y = y + (end.middle - y) * tenths // 10
    return Line(_cut(binding["routing_key"]), key_x, key_y, x, y, end.x, end.middle)


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else text[: CHARACTERS_MAX - 1] + "…"
