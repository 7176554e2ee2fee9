"""A page of HTML as a tree, strict where browsers are lenient: what is opened is closed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Element:
    """A tag with what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.inner: list[Element | str] = []

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def get(self, name: str) -> str | None:
        """An attribute; one without a value is empty."""
        return self.attributes.get(name)

    @property
    def text(self) -> str:
        """What people read of it, with single spaces."""
        return " ".join("".join(self._texts()).split())

    @property
    def raw_text(self) -> str:
        """Its text as it is."""
        return "".join(self._texts())

    def _texts(self) -> Iterator[str]:
        for each in self.inner:
            if isinstance(each, str):
                yield each
            else:
                yield from each._texts()
                yield " "

    def walk(self) -> Iterator[Element]:
        """All elements in it."""
        for each in self.inner:
            if isinstance(each, Element):
                yield each
                yield from each.walk()

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a tag that have these attributes; `class_` is one of several."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.walk()
            if each.tag == tag
            and all(
                value in (each.get(name) or "").split()
                if name == "class"
                else each.get(name) == value
                for name, value in wanted.items()
            )
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        """The only one of these."""
        (found,) = self.all(tag, **attributes)
        return found

    def rows(self) -> list[list[str]]:
        """The texts in the body of a table, or of all tables."""
        return [
            [cell.text for cell in row.walk() if cell.tag in ("td", "th")]
            for body in self.all("tbody")
            for row in body.all("tr")
        ]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inner.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, (self.open[-1].tag, tag, self.getpos())
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inner.append(data)


def read_html(text: str) -> Element:
    """The tree of a page.

    Raises:
        AssertionError: something is not closed, or an attribute stands twice.
    """
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, [each.tag for each in reader.open]
    return reader.open[0]
