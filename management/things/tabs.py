"""One thing, one page, in tabs: each has an address of its own, below that of the thing."""

from collections.abc import Mapping
from dataclasses import dataclass

from routelog.management.calls.path_template import filled


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab.

    Attributes:
        name: the last part of its address; empty: it has the address of the thing.
        count: how much is in it; None: that is not said.
        is_grave: it deletes, and stands apart.
    """

    name: str
    title: str
    count: int | None = None
    is_grave: bool = False


@dataclass(frozen=True, slots=True)
class Tabs:
    """The tabs of a thing, one of which is shown.

    Attributes:
        base: the address of the thing.
        shown: the name of the tab.
    """

    base: str
    tabs: list[Tab]
    shown: str


@dataclass(frozen=True, slots=True)
class Thing:
    """What stands above the tabs of a thing.

    Attributes:
        list: the address of the list that it is in; `within` is said behind it.
        state: as lists show it; empty: it has none.
        badges: texts with their kinds.
    """

    noun: str
    name: str
    list: str
    list_title: str
    within: str = ""
    state: str = ""
    badges: tuple[tuple[str, str], ...] = ()


def tabs_of(path: str, parts: Mapping[str, str], tabs: list[Tab], shown: str) -> Tabs:
    """The tabs of a thing, by the path of its page and what names it."""
    return Tabs(filled(path, parts), tabs, shown)
