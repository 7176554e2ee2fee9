"""What a delayed exchange holds, as a page."""

from unit.management.page_browser import Browser

from routelog.management.views import exchange_views

BODY = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}


async def test_an_exchange_leads_to_what_it_holds(browser: Browser) -> None:
    await browser.node.ask(exchange_views.put_exchange, name="later", body=BODY)
    await browser.sign_in_as("ann", "management")
    page = await browser.page("/exchanges/%2F/later")
    links = [each["href"] for each in page.one("main").all("a")]
    assert "/exchanges/%2F/later/delayed" in links
    page = await browser.page("/exchanges/%2F/later/delayed")
    assert "0 messages are held" in page.text
    assert (await browser.get("/exchanges/%2F/later/delayed?from=x")).status == 400
    assert (await browser.get("/exchanges/%2F/amq.direct/delayed")).status == 404
