"""The log's page: newest lines first, a filter in the address, lines that come by themselves."""

from unit.management.page_browser import Browser


async def test_the_log_is_shown_and_filtered(browser: Browser) -> None:
    node = browser.node
    of = {"time": "2026-01-31T12:00:00.000Z", "logger": "l"}
    node.log_lines = [
        {**of, "level": "info", "message": "queue deleted: name='q'", "number": 1}
        | {"event": "queue.deleted", "by": "bob", "via": "HTTP"},
        {**of, "level": "error", "message": "a fault", "trace": "Traceback", "number": 2},
    ]
    await browser.sign_in_as("ann", "administrator")
    page = await browser.page("/log")
    assert [row[1:4] for row in page.rows()] == [
        ["error", "", ""],
        ["info", "queue.deleted", "bob"],
    ]
    assert page.rows()[0][4] == "a faultTraceback"
    (live,) = page.all("div", id="live")
    assert live["hx-get"] == "/log"
    page = await browser.page("/log?via=HTTP&user=bob&still=1")
    assert [row[4] for row in page.rows()] == ["queue deleted: name='q'"]
    (live,) = page.all("div", id="live")
    assert "hx-get" not in live.attributes
    assert "routelog log tail --follow --user bob --via HTTP" in page.text
    assert "No line is like that" in (await browser.page("/log?event=x")).text
    assert (await browser.get("/log?level=loud")).status == 400
