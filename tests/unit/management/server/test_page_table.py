"""The table of pages: each is for a call of the API that there is, and has an address of its own."""

from routelog.management.calls.path_template import plain
from routelog.management.pages.frame import MENU
from routelog.management.server.page_table import PAGES
from routelog.management.server.routes import ROUTES


def test_each_page_is_for_a_call_of_the_api() -> None:
    known = {plain(route.path) for route in ROUTES if route.method == "GET"}
    assert {plain(page.api) for page in PAGES} - known == set()


def test_no_two_pages_share_an_address() -> None:
    addresses = [(page.method, plain(page.path)) for page in PAGES]
    assert len(addresses) == len(set(addresses))


def test_what_the_menu_names_is_a_page() -> None:
    named = {entry.path for entries in MENU.values() for entry in entries}
    assert named <= {page.path for page in PAGES}
