"""The table of pages."""

from routelog.management.pages.frame import MENU
from routelog.management.pages.page_table import PAGES


def test_no_two_pages_share_an_address() -> None:
    addresses = [(page.method, page.path) for page in PAGES]
    assert len(addresses) == len(set(addresses))


def test_what_the_menu_names_is_a_page() -> None:
    named = {entry.path for entries in MENU.values() for entry in entries}
    assert named <= {page.path for page in PAGES}
