"""What pages for users show: their blocks of code, in their order, and how many words stand beside these.

`PYTHONPATH=tests .venv/bin/python -m interop.documented.page_snippets` prints the words of each page.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
OF_CONTRIBUTORS = {"decisions", "internals"}


@dataclass(frozen=True)
class Snippet:
    """A block with a language.

    Attributes:
        line: of its first line in the page.
        prints: the block without a language that stands right behind it, if there is one.
    """

    language: str
    text: str
    line: int
    prints: str | None


def users_pages() -> list[str]:
    """Pages for users, as paths in the repository."""
    docs = ROOT / "docs"
    pages = [
        page
        for page in sorted(docs.rglob("*.md"))
        if page.relative_to(docs).parts[0] not in OF_CONTRIBUTORS
    ]
    return [str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *pages]]


def snippets(page: str) -> list[Snippet]:
    """The blocks of a page that have a language, without their indent."""
    text = (ROOT / page).read_text()
    blocks = list(BLOCK.finditer(text))
    found = []
    for at, block in enumerate(blocks):
        indent, language, shown = block.groups()
        if not language:
            continue
        behind = blocks[at + 1] if at + 1 < len(blocks) else None
        prints = None
        if behind is not None and not behind[2] and not text[block.end() : behind.start()].strip():
            prints = _without_indent(behind[3], behind[1])
        line = text.count("\n", 0, block.start()) + 2
        found.append(Snippet(language, _without_indent(shown, indent), line, prints))
    return found


def _without_indent(shown: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", shown, flags=re.MULTILINE)


def words(page: str) -> int:
    """How many words of prose a page has: without its blocks of code, and its tables, which are for values."""
    lines = BLOCK.sub("", (ROOT / page).read_text()).splitlines()
    return sum(len(line.split()) for line in lines if not line.lstrip().startswith("|"))


if __name__ == "__main__":
    found = {page: words(page) for page in users_pages()}
    lines = [f"{count:6} {page}\n" for page, count in found.items()]
    sys.stdout.writelines([*lines, f"{sum(found.values()):6} together\n"])
