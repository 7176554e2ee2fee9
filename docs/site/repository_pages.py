"""A hook of MkDocs: pages of the repository's top are pages of the site, and links between both lead there.

In the sources, links lead from file to file. In the site, `docs/` is the top, `ARCHITECTURE.md` and its like
are in `project/`, and what is no page (a source, the licence, a folder) has no link.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
DOCS = "docs"
PROJECT = "project"  # where the site has them
PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
IN_NO_MENU = ("package-index.md",)

LINK = re.compile(r"\[([^\]]*)\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Add what grows file by file to the menu."""
    menu = config.nav[-1]["Contribute"]
    menu += [f"internals/{each.name}" for each in _pages("internals")]
    menu.append({"Decisions": [f"decisions/{each.name}" for each in _pages("decisions")]})
    return config


def _pages(folder: str) -> list[Path]:
    return [
        each for each in sorted((ROOT / DOCS / folder).glob("*.md")) if each.name != "README.md"
    ]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the top; the package index's is no page of the site."""
    for name in PAGES:
        files.append(File.generated(config, f"{PROJECT}/{name}", abs_src_path=str(ROOT / name)))
    for name in IN_NO_MENU:
        page = files.get_file_from_path(name)
        if page is not None:
            files.remove(page)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the sources into those of the site, out of blocks of code."""
    here = page.file.src_uri
    source = (
        here.removeprefix(f"{PROJECT}/") if here.startswith(f"{PROJECT}/") else f"{DOCS}/{here}"
    )

    def turned(link: re.Match[str]) -> str:
        return f"[{link[1]}]({target})" if (target := _target(link[2], source, here)) else link[1]

    parts, end = [], 0
    for block in CODE.finditer(markdown):
        parts += [LINK.sub(turned, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, LINK.sub(turned, markdown[end:])])


def _target(link: str, source: str, here: str) -> str:
    """Where a link of a source leads in the site; empty: nowhere."""
    path, hash_sign, anchor = link.partition("#")
    if not path or re.match(r"[a-z]+:", link):
        return link
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if wanted.startswith(f"{DOCS}/"):
        wanted = wanted.removeprefix(f"{DOCS}/")
        if (ROOT / DOCS / wanted).is_dir() or wanted in IN_NO_MENU or wanted.endswith(".py"):
            return ""
    elif wanted in PAGES:
        wanted = f"{PROJECT}/{wanted}"
    else:
        return ""
    return posixpath.relpath(wanted, posixpath.dirname(here) or ".") + hash_sign + anchor
