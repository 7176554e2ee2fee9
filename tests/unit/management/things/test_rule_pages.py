"""Policies and limits."""

from unit.management.page_browser import Browser

LIMITS = "/limits"


async def test_limits_are_set_shown_beside_what_is_used_and_lifted(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    await browser.node.queue("q")
    said = {"vhost": "/", "limit": "max-queues", "value": "7"}
    await browser.send(LIMITS, "/do/put-vhost-limit", **said)
    said = {"user": "ann", "limit": "max-connections", "value": "3"}
    answer = await browser.send(LIMITS, "/do/put-user-limit", **said)
    assert [row[:4] for row in answer.page.rows()] == [
        ["/ virtual host", "max-queues", "1", "7"],
        ["ann user", "max-connections", "0", "3"],
    ]
    await browser.send(LIMITS, "/do/clear-vhost-limit")
    answer = await browser.send(LIMITS, "/do/clear-user-limit")
    assert "No virtual host and no user has a limit." in answer.page.text


async def test_who_looks_on_sees_limits_and_changes_none(browser: Browser) -> None:
    await browser.sign_in_as("eve", "monitoring")
    page = await browser.page(LIMITS)
    assert page.all("form", method="post") == page.all("form", action="/sign-out")
