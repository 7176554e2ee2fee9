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


async def test_a_policy_says_what_it_sets_and_for_whom_and_is_changed(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    node = browser.node
    for name in ("q1", "q2", "other"):
        await node.queue(name)
    said = {"name": "p", "pattern": "^q", "definition": '{"max-age": "7D"}'}
    said["definition.message-ttl"] = "3600000"
    answer = await browser.send("/policies", "/do/put-policy", **said)
    here = "/policies/%2F/p"
    assert here in [each["href"] for each in answer.page.all("a")]
    page = await browser.page(here)
    assert "Messages expire after 1 h message-ttl" in page.text
    assert "In force for 2:" in page.text
    links = [each["href"] for each in page.one("main").all("a")]
    assert "/queues/%2F/q1" in links
    assert "/queues/%2F/other" not in links
    await browser.send(f"{here}/settings", "/do/put-policy", **{"definition.message-ttl": "5"})
    (policy,) = node.vhost.policies.book.all(operator=False)
    assert policy.definition == {"max-age": "7D", "message-ttl": 5}
    page = await browser.page(f"{here}/danger")
    assert "2 queues or exchanges lose 2 settings" in page.text
    answer = await browser.send(f"{here}/danger", "/do/delete-policy", confirm="p")
    assert answer.page.one("p", role="status").text == "The policy p is deleted."
    assert (await browser.get(here)).status == 404


async def test_an_operator_policy_has_a_page_too(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    await browser.node.queue("q")
    said = {"name": "o", "pattern": "^q", "definition.max-length": "5"}
    await browser.send("/operator-policies", "/do/put-operator-policy", **said)
    page = await browser.page("/operator-policies/%2F/o")
    assert "Most messages 5 max-length" in page.text
    assert "/queues/%2F/q" in [each["href"] for each in page.one("main").all("a")]
