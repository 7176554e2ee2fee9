"""Links of the documentation lead somewhere, wherever it is read; tests and files that it names exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\(([^()\s]+)\)")
MAPS = [ROOT / "ARCHITECTURE.md", ROOT / "docs" / "internals" / "code-map.md"]
FILE = re.compile(r"`([\w/]+\.py)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def links(page: Path) -> list[str]:
    """Where a page's links lead, out of its blocks of code."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return LINK.findall(prose)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_sources_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_a_page_names_exist(page: Path) -> None:
    for path, name in TEST.findall(page.read_text()):
        source = (ROOT / path).read_text()
        assert re.search(rf"^ *(?:async )?(?:def|class) {name}\b", source, re.MULTILINE), (
            path,
            name,
        )


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.stem)
def test_files_that_a_map_names_exist(page: Path) -> None:
    """In full, or within the package that the row is about."""
    packages = [each.parent for each in ROOT.glob("*/__init__.py")]
    for name in FILE.findall(page.read_text()):
        assert any((folder / name).is_file() for folder in [ROOT, *packages]), name


def test_no_page_and_no_error_takes_the_broker_from_a_package_index() -> None:
    """It is in none, and there `routelog` is a stranger's program. Extras are named in full, and exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = [
        each for package in ROOT.glob("*/__init__.py") for each in package.parent.rglob("*.py")
    ]
    taken = re.compile(r"pip (?:install|download) [^\n`]*(?<![\w./-])routelog\b")
    for page in [*PAGES, *ROOT.glob("docs/**/*.ipynb"), *sources]:
        text = page.read_text()
        assert taken.search(text) is None, page
        for name, extra in re.findall(r"\b(routelog[\w-]*)\[([a-z]+)\]", text):
            assert name == project["name"], page
            assert extra in project["optional-dependencies"], page


def test_what_a_package_index_shows_has_no_links_within_the_sources() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for link in links(ROOT / project["readme"]):
        assert link.startswith("https://"), link
