"""A picture of an exchange's bindings: what leads to it on the left, where it leads on the right.

What exchanges on the right lead to stands one column further. Bindings between the same two are one line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from routelog.management.calls.answer import Row

BINDINGS_MAX = 50  # lines of all columns: a taller picture is no overview
ROW_HEIGHT = 44
BOX_WIDTH, BOX_HEIGHT = 200, 30
LINE_WIDTH = 170  # has room for a key
CHARACTERS_MAX = 25  # of a name: they are cut, and whole on hover and in the table
KEY_CHARACTERS_MAX = 22
_MARGIN = 4

End = tuple[str, str]  # "queue" or "exchange", and its name


@dataclass(frozen=True, slots=True)
class Box:
    """A queue or exchange.

    Attributes:
        name: in full; `label` is cut.
        lit: the tried message comes here.
    """

    kind: str
    name: str
    label: str
    x: int
    y: int
    lit: bool

    @property
    def middle(self) -> int:
        """Height at which lines meet the box."""
        return self.y + BOX_HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Line:
    """The bindings from one box to another, from the right of one to the left of the other.

    Attributes:
        key: of the bindings; `keys` in full.
        key_x, key_y: where the key ends: at the outer box, as all lines meet at the exchange.
        curve: the path of an SVG.
        lit: the tried message goes along here.
    """

    key: str
    keys: str
    key_x: int
    key_y: int
    x1: int
    x2: int
    curve: str
    lit: bool


@dataclass(frozen=True, slots=True)
class BindingPicture:
    """The picture.

    Attributes:
        drawn: how many bindings it has.
    """

    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[Line]
    drawn: int


@dataclass(slots=True)
class _Bundle:
    # The bindings between an exchange and one other end.
    end: End
    keys: list[str] = field(default_factory=list)
    lit: bool = False
    behind: list["_Bundle"] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return max(1, len(self.behind))


def binding_picture(
    name: str,
    coming: Sequence[Row],
    leaving: Sequence[Row],
    behind: Mapping[str, Sequence[Row]] | None = None,
    way: Collection[tuple[str, str, str]] | None = None,
) -> BindingPicture:
    """The picture of an exchange.

    Args:
        name: as it is shown.
        coming: rows of the API, of bindings to it; `leaving`, of those from it.
        behind: of the exchanges that it leads to, the bindings from each.
        way: of a tried message: source, destination and key of each binding that it goes along; None: none is
            tried.
    """
    lit = frozenset(way or ())
    left = _bundles(coming, "source", lit)
    right = _bundles(leaving, "destination", lit)
    right = right[: BINDINGS_MAX - min(len(left), BINDINGS_MAX // 2)]
    left = left[: BINDINGS_MAX - len(right)]
    room = BINDINGS_MAX - len(left) - len(right)
    for each in right:
        if each.end[0] == "exchange" and behind:
            each.behind = _bundles(behind.get(each.end[1], ()), "destination", lit)[:room]
            room -= len(each.behind)
    rows = max(len(left), sum(each.rows for each in right), 1)
    drawing = _Drawing()
    x = _MARGIN + (BOX_WIDTH + LINE_WIDTH if left else 0)
    own = drawing.box("exchange", name, x, (rows - 1) / 2, lit=way is not None)
    for at, each in enumerate(left):
        box = drawing.box("exchange", each.end[1], _MARGIN, at + (rows - len(left)) / 2)
        drawing.line(each, box, own, at_begin=True)
    place = (rows - sum(each.rows for each in right)) / 2
    for each in right:
        box = drawing.box(
            *each.end, x + BOX_WIDTH + LINE_WIDTH, place + (each.rows - 1) / 2, each.lit
        )
        drawing.line(each, own, box)
        for number, other in enumerate(each.behind):
            last = drawing.box(
                *other.end, x + 2 * (BOX_WIDTH + LINE_WIDTH), place + number, other.lit
            )
            drawing.line(other, box, last)
        place += each.rows
    bundles = [*left, *right, *(other for each in right for other in each.behind)]
    return BindingPicture(
        max(box.x for box in drawing.boxes) + BOX_WIDTH + _MARGIN,
        2 * _MARGIN + (rows - 1) * ROW_HEIGHT + BOX_HEIGHT,
        drawing.boxes,
        drawing.lines,
        sum(len(each.keys) for each in bundles),
    )


def _bundles(rows: Sequence[Row], end: str, lit: Collection[tuple[str, str, str]]) -> list[_Bundle]:
    found: dict[End, _Bundle] = {}
    for row in rows:
        kind = row["destination_type"] if end == "destination" else "exchange"
        bundle = found.setdefault((kind, row[end]), _Bundle((kind, row[end])))
        bundle.keys.append(row["routing_key"])
        bundle.lit |= (row["source"], row["destination"], row["routing_key"]) in lit
    return list(found.values())


class _Drawing:
    # Boxes and lines, placed in rows.

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.lines: list[Line] = []

    def box(self, kind: str, name: str, x: int, row: float, lit: bool = False) -> Box:
        y = _MARGIN + round(row * ROW_HEIGHT)
        box = Box(kind, name, cut(name, CHARACTERS_MAX), x, y, lit)
        self.boxes.append(box)
        return box

    def line(self, bundle: _Bundle, begin: Box, end: Box, *, at_begin: bool = False) -> None:
        x1, x2 = begin.x + BOX_WIDTH, end.x
        middle = (x1 + x2) // 2
        curve = (
            f"M{x1} {begin.middle}C{middle} {begin.middle} {middle} {end.middle} {x2} {end.middle}"
        )
        keys = ", ".join(bundle.keys)
        outer = begin if at_begin else end
        key_x = x1 + 8 if at_begin else x2 - 8
        shown = cut(keys, KEY_CHARACTERS_MAX)
        line = Line(shown, keys, key_x, outer.middle - 6, x1, x2, curve, bundle.lit)
        self.lines.append(line)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
