"""Every snippet of a page for users runs as it stands there: each page on a machine and a broker of its own.

It is what a reader would see who pastes one snippet after the other. `readers_machine.py` says how they run,
and runs one page alone. A page whose snippet fails is to be mended, not the test. What no test can run is in
`page_exceptions.py`, each with its reason.
"""

from __future__ import annotations

import os

import pytest
from interop.documented.page_exceptions import NOT_RUN, READERS_HAVE
from interop.documented.page_snippets import snippets, users_pages, words
from interop.documented.readers_machine import visited
from support.sampling import sampled

pytestmark = [pytest.mark.interop, pytest.mark.differs_from_rabbitmq("its own commands")]

OF_SPARK = {
    "docs/spark/spark.md",
    "docs/spark/lake.md",
}  # a JVM starts in 10 s, or in a minute beside others
OF_BENCHMARKS = {
    "docs/performance.md"
}  # takes as long as all others; scenarios/benchmarks runs them, too
WORDS_MAX = 33_000  # of prose, in all pages
DEVELOPERS_PAGES = ("docs/getting-started.md", "README.md", "docs/clients.md", "docs/messaging/")
PAGES = [page for page in users_pages() if snippets(page)]


def read(*pages: str) -> None:
    """Run pages on one machine, unless there can be none."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can make a machine with files and a network of its own")
    done = visited(*pages)
    if done.returncode:
        pytest.fail(done.stderr, pytrace=False)


@pytest.mark.parametrize(
    "page",
    [
        *(
            pytest.param(page, marks=pytest.mark.long) if page in OF_BENCHMARKS else page
            for page in PAGES
            if not page.startswith(DEVELOPERS_PAGES) and page not in OF_SPARK
        ),
        # The last test runs all of these, too.
        *sampled((page for page in PAGES if page.startswith(DEVELOPERS_PAGES)), len(PAGES)),
    ],
)
def test_snippets_of_a_page_run_as_they_stand_there(page: str) -> None:
    read(page)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("page", sorted(OF_SPARK))
def test_snippets_of_a_page_of_spark_run_as_they_stand_there(page: str) -> None:
    read(page)


def test_what_is_not_run_is_in_the_pages() -> None:
    for page, beginnings in NOT_RUN.items():
        lines = [line.strip() for each in snippets(page) for line in each.text.splitlines()]
        for beginning in beginnings:
            assert any(line.startswith(beginning) for line in lines), (page, beginning)
    assert set(READERS_HAVE) <= set(PAGES)


def test_pages_together_are_short_enough_to_be_read() -> None:
    assert sum(words(page) for page in users_pages()) <= WORDS_MAX


def test_developers_can_read_their_pages_one_after_the_other() -> None:
    """No page declares a name of another one with other arguments."""
    read(*(page for page in PAGES if page.startswith(DEVELOPERS_PAGES)))
