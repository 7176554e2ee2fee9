"""The web page in a real browser: an operator's work, script in names and bodies, and accessibility."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.sampling import sampled
from support.waiting import wait_until

from routelog.management.server.page_table import PAGES

pytestmark = pytest.mark.differs_from_rabbitmq("its page is another one")

CHROMIUM = "/usr/bin/chromium"  # Debian's: see .ci/system-packages
AXE = Path(__file__).with_name("axe") / "axe-4.14.1.min.js"
SCRIPT = (
    "<img src=x onerror=\"document.title='run'\"></script><script>document.title='run'</script>"
)
SHORT = "<img src=x onerror=alert(1)>\"'"
# What makes a page wider than its window, so that it scrolls sideways.
TOO_WIDE = """
(() => {
  const isCut = (each) => each && (getComputedStyle(each).overflowX !== "visible" || isCut(each.parentElement));
  if (document.documentElement.scrollWidth <= window.innerWidth) return [];
  return [...document.querySelectorAll("body *")]
    .filter(each => each.getBoundingClientRect().right > window.innerWidth && !isCut(each.parentElement))
    .map(each => each.outerHTML.slice(0, 200));
})()
"""
expect.set_options(timeout=30_000)  # a busy machine
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    banner = {"ROUTELOG_MANAGEMENT_BANNER": SHORT, "ROUTELOG_FINDINGS_MESSAGES": "1"}
    process = BrokerProcess(tmp_path_factory.mktemp("page"), banner).start()
    door = ManagementDoor(process)
    everything = dict.fromkeys(("configure", "write", "read"), ".*")
    for name in ("plain", SHORT):
        for vhost in ("/", SHORT):
            door.do("PUT", "vhosts", vhost, body={"description": SCRIPT})
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            arguments["x-retention"] = "1D"
            door.do("PUT", "queues", vhost, name, body={"arguments": arguments})
            delayed = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}}
            door.do("PUT", "exchanges", vhost, name, body=delayed)
            binding = ("bindings", vhost, "e", name, "q", name)
            door.do("POST", *binding, body={"routing_key": SHORT, "arguments": {SHORT: SHORT}})
    door.do("PUT", "users", SHORT, body={"password": "x", "tags": SHORT})
    door.do("PUT", "permissions", "/", SHORT, body=everything)
    policy = {"pattern": "^none$", "definition": {"max-length": 3}}
    door.do("PUT", "policies", "/", SHORT, body=policy)
    door.do("PUT", "operator-policies", "/", SHORT, body=policy)
    for body in (SCRIPT, json.dumps({SCRIPT: [SCRIPT]})):
        message = {"payload": body, "payload_encoding": "string", "routing_key": SHORT}
        message["properties"] = {"headers": {SHORT: SCRIPT}, "content_type": SHORT}  # type: ignore[assignment]
        door.do("POST", "exchanges", "/", SHORT, "publish", body=message)
    message["properties"] = {"headers": {"x-delay": 3_600_000}}  # type: ignore[assignment]
    door.do("POST", "exchanges", "/", SHORT, "publish", body=message)
    door.do("PUT", "logs", "/", SHORT, "readers", SHORT, body={"offsets": {"0": 1}})
    clients = Clients(process.url)
    told = {"connection_name": SCRIPT, SHORT: SCRIPT}
    # Without heartbeats: nobody looks at this connection while pages are shown.
    connection = clients.connect(client_properties=told, heartbeat=0)
    connection.channel().basic_consume("plain", lambda *_: None, consumer_tag=SHORT)
    wait_until(lambda: door.get("channels"))
    yield process
    clients.close()
    process.stop()


class Visitor:
    """Somebody at the browser; nothing may run that the page did not bring."""

    def __init__(self, browser: Browser, broker: BrokerProcess, view: str) -> None:
        self.broker = broker
        self.origin = f"http://{ManagementDoor(broker).address.netloc}"
        self.context = browser.new_context(**VIEWS[view])
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        # The form to sign in comes with 401, which browsers tell the console.
        if message.type == "error" and "status of 40" not in message.text:
            self.faults.append(f"console: {message.text}")

    def sign_in(self) -> None:
        self.page.goto(self.origin + "/")
        self.page.fill("#user", "guest")
        self.page.fill("#password", "guest")
        self.page.click("main button")

    def close(self) -> None:
        assert self.page.title() != "run"
        self.context.close()
        assert self.faults == []


@pytest.fixture
def visitor(chromium: Browser, world: BrokerProcess, request: Any) -> Iterator[Visitor]:
    visitor = Visitor(chromium, world, getattr(request, "param", "light"))
    visitor.sign_in()
    yield visitor
    visitor.close()


def paths(broker: BrokerProcess) -> list[str]:
    """Every page, of things whose names carry script; a connection's name cannot, its properties can."""
    (channel,) = ManagementDoor(broker).get("channels")
    connection = channel["connection_details"]["name"]
    encoded = "".join(f"%{each:02X}" for each in SHORT.encode())
    found = [page.path.replace("{vhost}", "%2F") for page in PAGES if page.method == "GET"]
    found.remove("/definitions/file")  # which is saved, not shown
    found = [path.replace("{channel}", quote(channel["name"])) for path in found]
    found = [path.replace("{operation}", "put_queues_vhost_name") for path in found]
    found = [
        path.replace("/connections/{name}", f"/connections/{quote(connection)}") for path in found
    ]
    found = [re.sub(r"\{\w+(:[^}]*)?\}", encoded, path) for path in found]
    asked = f"action=publish&vhost=%2F&name={encoded}&key={encoded}"
    return [*found, f"/queues/{encoded}/{encoded}", f"/users/{encoded}?{asked}"]


def tab(page: Page, name: str) -> None:
    """Go to a tab of a thing; the page stays, and its address is another."""
    page.locator(".tabs a", has_text=name).click()
    expect(page.locator(".tabs [aria-current]")).to_have_text(name)
    page.wait_for_load_state()


def test_an_operator_does_his_work(visitor: Visitor) -> None:
    page, name = visitor.page, "a/b " + SHORT
    page.click("nav >> text=Queues")
    page.click("button:text-is('New queue')")
    page.fill("#declare-queue-name", name)
    page.click("text=Add queue")
    assert page.inner_text("h1") == name
    assert page.inner_text("[role=status]") == f"Queue {name} is there."
    tab(page, "Publish")
    page.fill("#publish-payload", SCRIPT)
    page.fill("[id='publish-properties.headers']", json.dumps({SHORT: SCRIPT}))
    page.click("main button:text-is('Publish')")
    assert "routed to at least one queue" in page.inner_text("[role=status]")
    tab(page, "Overview")
    assert page.inner_text(".stat dd >> nth=0") == "1"
    tab(page, "Messages 1")
    page.click("article summary")
    assert page.inner_text("article pre") == SCRIPT
    page.check("#marks")
    assert page.inner_text("[data-marked]") == "1"
    page.select_option("[name=mode]", "copy")
    page.click("text=Try, then ask…")
    assert "Where to?" in page.inner_text("[role=alert]")  # at the form, on its page
    assert page.url.endswith("/messages#chosen")
    page.check("[name=message]")
    expect(page.locator("[data-marked]")).to_have_text("1")
    page.select_option("[name=mode]", "copy")
    page.fill("[name=to]", "plain")
    page.click("text=Try, then ask…")
    assert "Copy 1 message to queue “plain”?" in page.inner_text("main")
    page.click("button:text-is('Copy 1 message')")
    assert page.inner_text("[role=status]") == "Copied: 1 message."
    page.fill("[name=text]", "not in it")
    page.click("button:text-is('Find')")
    assert "No message is like that." in page.inner_text("main")
    page.goto(visitor.origin + "/queues")
    page.fill("[name=name] >> nth=0", "a/b")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("name=a%2Fb"))  # by htmx, without a new page
    page.click("tbody a")
    tab(page, "Messages 1")
    page.click("button:text-is('Take')")
    assert page.inner_text("article pre") == SCRIPT
    tab(page, "Purge, delete")
    page.click("text=Purge…")
    expect(page.locator("dialog[open] .loss")).to_contain_text("1 ready message")
    page.fill("#purge-queue-confirm", "another")
    page.click("dialog[open] button:text-is('Purge')")
    assert "has to be typed" in page.inner_text("dialog[open] [role=alert]")  # it opens again
    page.click("dialog[open] button:text-is('Cancel')")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.click("text=Purge…")
    page.fill("#purge-queue-confirm", name)
    page.click("dialog[open] button:text-is('Purge')")
    page.click("text=Delete…")
    expect(page.locator("dialog[open] .loss")).to_contain_text("0 messages")
    page.fill("#delete-queue-confirm", name)
    page.click("dialog[open] button:text-is('Delete')")
    assert page.inner_text("[role=status]") == f"Queue {name} is deleted."
    page.go_back()
    page.reload()
    assert "No queue" in page.inner_text("h1")
    page.click("text=Sign out")
    assert page.inner_text("h1") == "Sign in"


def test_an_operator_looks_after_readers_delays_definitions_and_the_log(
    visitor: Visitor, tmp_path: Path
) -> None:
    page = visitor.page
    page.click("nav >> text=Streams and groups")
    page.click(f"tbody a:text-is({json.dumps(SHORT)})")
    page.fill("[name=to]", "next")
    page.click("button:text-is('Move')")
    assert page.inner_text("[role=status]").startswith("It would skip 1 message")
    page.goto(visitor.origin + "/exchanges")
    page.click("tbody a:text-is('plain') >> nth=0")
    page.goto(page.url.replace("plain", "".join(f"%{each:02X}" for each in SHORT.encode())))
    tab(page, "Delayed 1")
    page.click("button:text-is('Cancel…')")
    page.click("dialog[open] .fields button")
    assert "is never delivered" in page.inner_text("[role=status]")
    assert "0 messages are held" in page.inner_text("main")
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": SCRIPT[:40], "description": SCRIPT}]}))
    page.click("nav >> text=Definitions")
    page.set_input_files("#document", file)
    page.click("text=Show what it would do…")
    assert page.inner_text("table >> nth=1 >> tbody th") == SCRIPT[:40]
    page.click("button:text-is('Import')")
    assert page.inner_text("[role=status]") == "The definitions are imported."
    with page.expect_download() as saved:
        page.click("text=Everything")
    assert SCRIPT[:40] in [
        each["name"] for each in json.loads(saved.value.path().read_text())["vhosts"]
    ]
    page.click("nav >> text=Log")
    page.fill("[name=event]", "definitions.")
    page.click("button:text-is('Show')")
    expect(page.locator("tbody th >> nth=0")).to_contain_text("definitions imported")
    ManagementDoor(visitor.broker).do("POST", "definitions", body={})
    expect(page.locator("tbody tr")).to_have_count(2)  # by htmx, without a new page


@pytest.mark.parametrize(
    ("visitor", "first"),
    # Half of the pages each, by the place of the first: the sample has each page in one of the views.
    sampled([("light", 0), ("light", 1), ("dark phone", 1), ("dark phone", 0)], 2),
    indirect=["visitor"],
)
def test_every_page_is_usable_by_all_and_runs_nothing_of_others(
    visitor: Visitor, world: BrokerProcess, first: int
) -> None:
    page = visitor.page
    axe = AXE.read_text()
    for path in paths(world)[first::2]:
        answer = page.goto(visitor.origin + path)
        assert answer is not None
        assert answer.status == 200, path
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        page.evaluate(axe)
        found = page.evaluate("axe.run().then(result => result.violations)")
        grave = [
            (each["id"], node["html"], node["failureSummary"])
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
        assert grave == [], path
        wide = page.evaluate(TOO_WIDE)
        assert wide == [], path
        assert page.title() != "run", path
        assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_the_overview_leads_to_what_is_wrong_and_back_in_time(visitor: Visitor) -> None:
    page = visitor.page
    assert "no consumer" in page.inner_text("h1")
    page.click("ul.findings a.lead")
    assert page.inner_text("h1") == SHORT
    page.go_back()
    expect(page.locator(".plot canvas")).to_have_count(2)
    page.click("text=24 h")
    expect(page).to_have_url(re.compile("range=24h"))
    expect(page.locator(".ranges [aria-current]")).to_have_text("24 h")
    more = "{target: '#live', select: '#live', swap: 'outerHTML settle:0ms'}"
    page.evaluate(
        f"htmx.ajax('GET', document.querySelector('#live').getAttribute('hx-get'), {more})"
    )
    expect(page.locator(".ranges [aria-current]")).to_have_text("24 h")
    latest = page.inner_text(".keys >> nth=-1")
    page.hover(".plot >> nth=-1")
    expect(page.locator(".chart-time >> nth=-1")).to_contain_text("at ")
    page.hover("h1")
    expect(page.locator(".keys >> nth=-1")).to_have_text(latest)


def test_charts_are_drawn_and_drawn_anew_when_their_part_of_the_page_is(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(visitor.origin + "/queues/%2F/plain")
    charts = page.locator(".plot").count()
    expect(page.locator(".plot canvas")).to_have_count(charts)
    page.evaluate("document.querySelector('.plot canvas').id = 'first'")
    more = "{target: '#live', select: '#live', swap: 'outerHTML settle:0ms'}"
    page.evaluate(f"htmx.ajax('GET', location.pathname, {more})")
    expect(page.locator("#first")).to_have_count(0)
    expect(page.locator(".plot canvas")).to_have_count(charts)
    page.goto(visitor.origin + "/exchanges/%2F/plain")
    expect(page.locator("svg.picture path")).to_have_count(1)


def test_the_way_of_a_message_that_is_tried_is_lit(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(visitor.origin + "/exchanges/%2F/plain")
    page.fill("[name=routing_key]", SHORT)
    page.click("button:text-is('Try')")
    expect(page.locator("svg.picture path.lit")).to_have_count(1)
    expect(page.locator("[role=status]")).to_contain_text("To 1 queue: plain.")
    page.fill("[name=routing_key]", "other")
    page.click("button:text-is('Try')")
    expect(page.locator("svg.picture path.lit")).to_have_count(0)
    expect(page.locator("[role=status]")).to_contain_text("To no queue")


def test_a_dialog_is_left_by_escape_and_its_tab_has_an_address(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(visitor.origin + "/queues/%2F/plain")
    tab(page, "Purge, delete")
    expect(page).to_have_url(re.compile("/queues/%2F/plain/danger$"))
    page.click("text=Delete…")
    expect(page.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.go_back()
    expect(page.locator(".tabs [aria-current]")).to_have_text("Overview")


def test_a_thing_is_found_by_its_name_from_the_keyboard(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(visitor.origin + "/users")  # its scripts have run
    page.keyboard.press("/")
    page.keyboard.type("plai")
    expect(page.locator("#found a >> nth=0")).to_have_text("plain /")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("plain")
    page.wait_for_load_state()
    page.keyboard.press("/")
    page.keyboard.type("poli")
    expect(page.locator("#found a")).not_to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#found a")).to_have_count(0)
    assert page.input_value("#search") == ""


def test_a_vhost_is_chosen_at_the_top(visitor: Visitor) -> None:
    page, door = visitor.page, ManagementDoor(visitor.broker)
    page.goto(visitor.origin + "/exchanges")
    page.select_option("#in-vhost", "/")  # is sent at once
    expect(page.locator("#in-vhost")).to_have_value("/")
    page.click("nav >> text=Queues")
    assert page.input_value("#in-vhost") == "/"
    assert page.inner_text("nav a[href='/queues'] .count") == str(len(door.get("queues", "/")))
    page.select_option("#in-vhost", "")
    expect(page.locator("nav a[href='/queues'] .count")).to_have_text(str(len(door.get("queues"))))


@pytest.mark.parametrize("visitor", ["dark phone"], indirect=True)
def test_on_a_phone_the_menu_is_a_drawer(visitor: Visitor) -> None:
    page = visitor.page
    expect(page.locator("#menu")).not_to_be_visible()
    page.click("button[popovertarget=side]")
    page.click("#menu >> text=Exchanges")
    expect(page.locator("h1")).to_have_text("Exchanges")
    expect(page.locator("#menu")).not_to_be_visible()


def test_the_picture_says_how_old_it_is_and_the_menu_counts_anew(visitor: Visitor) -> None:
    page, door = visitor.page, ManagementDoor(visitor.broker)
    expect(page.locator("#picture.live")).to_contain_text("live")
    before = page.inner_text("nav a[href='/queues'] .count")
    page.focus("nav a[href='/queues']")
    door.do("PUT", "queues", "/", "one more", body={})
    expect(page.locator("nav a[href='/queues'] .count")).not_to_have_text(before, timeout=30_000)
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/queues"
    door.do("DELETE", "queues", "/", "one more")
    visitor.page.clock.install()
    page.goto(visitor.origin + "/")
    page.route("**/*", lambda route: route.abort())
    page.clock.run_for(70_000)
    expect(page.locator("#picture.stale")).to_contain_text("1:")
    page.goto("about:blank")  # nothing is asked any more
    visitor.faults.clear()  # of requests that were let fail


@pytest.mark.parametrize("path", sampled(["/exchanges/%2F/plain", "/queues", "/users/guest"], 3))
def test_the_keyboard_reaches_everything(visitor: Visitor, path: str) -> None:
    page = visitor.page
    page.goto(visitor.origin + path)
    wanted = page.evaluate(
        "[...document.querySelectorAll('a, button, summary, textarea, select, input:not([type=hidden])')]"
        ".filter(each => each.checkVisibility()).length"
    )
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
                " + (document.activeElement.matches(':focus-visible') ? 0 : -1e9)"
            )
        )
    reached_controls = page.evaluate(
        "places => places.filter(at => [...document.querySelectorAll('*')][at]"
        "?.matches('a, button, summary, textarea, select, input')).length",
        sorted(reached),
    )
    assert reached_controls == wanted
