"""The documentation as a site: MkDocs follows all links, and no page fetches anything from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

from support.source_tree import ROOT

FETCHED = re.compile(r"<(?:script|img|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>")


def test_the_site_is_built_from_pages_without_broken_links(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = list(site.rglob("*.html"))
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    assert len(pages) >= len(sources)
    fetched = [found for page in pages for found in FETCHED.findall(page.read_text())]
    # The canonical address of a page would be one, if the site had an address.
    assert fetched == []
    # A link out of docs/ leads to the page in the site.
    assert "project/ARCHITECTURE.html" in (site / "index.html").read_text()
