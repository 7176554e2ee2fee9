"""One user, and what he may; one virtual host."""

import pytest
from unit.management.page_browser import ALL, Browser

from routelog.vhosts import Permission, TopicPermission, User


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    users = browser.node.users
    await users.put_user(User("b/b", "hash of secret", ("monitoring",)))
    await users.set_permissions("b/b", "/", Permission("", "^a", "^b"))
    return browser


HERE = "/users/b%2Fb"
PERMISSIONS = f"{HERE}/permissions"


async def test_a_user_is_shown_and_changed(browser: Browser) -> None:
    users = browser.node.users
    assert HERE in [each["href"] for each in (await browser.page("/users")).all("a")]
    page = await browser.page(PERMISSIONS)
    assert "hash of" not in page.text
    assert page.rows()[0][:4] == ["/", "", "^a", "^b"]

    said = {"exchange": "amq.topic", "write": "^w"}
    answer = await browser.send(PERMISSIONS, "/do/put-topic-permission", **said)
    assert ["/", "amq.topic", "^w", ".*"] in [row[:4] for row in answer.page.rows()]
    answer = await browser.send(PERMISSIONS, "/do/clear-topic-permission")
    assert "all keys of amq.topic" in answer.page.one("p", role="status").text
    assert users.permissions.topics("b/b", "/") == {}

    await browser.send(f"{HERE}/limits", "/do/put-user-limit", limit="max-channels", value="7")
    assert users.limits("b/b") == {"max-channels": 7}
    page = await browser.page(f"{HERE}/limits")
    assert ["max-channels", "7"] in [row[:2] for row in page.rows()]
    await browser.send(f"{HERE}/limits", "/do/clear-user-limit")
    assert users.limits("b/b") == {}

    await browser.send(PERMISSIONS, "/do/put-permission", read="^c")
    assert users.permissions.of_user("b/b")["/"].read == "^c"
    await browser.send(f"{HERE}/settings", "/do/put-tags", tags="policymaker")
    assert users.get("b/b").tags == ("policymaker",)
    answer = await browser.send(f"{HERE}/settings", "/do/put-password", password="other words")
    assert users.get("b/b") == User("b/b", "hash of other words", ("policymaker",))
    assert "other words" not in answer.text
    answer = await browser.send(f"{HERE}/danger", "/do/delete-user", confirm="b/b")
    assert answer.page.one("h1").text == "Users"
    assert (await browser.get(HERE)).status == 404


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("action=publish&name=a.x&key=k", "Yes: write '^a' matches 'a.x'."),
        ("action=publish&name=&key=k", "Yes: write '^a' matches 'amq.default'."),
        ("action=publish&name=amq.topic&key=w", "Yes: write '^w' matches 'w'."),
        ("action=publish&name=amq.topic&key=no", "No: write '^w' does not match 'no'."),
        ("action=bind&name=amq.topic&key=w", "No: read '^b' does not match 'amq.topic'."),
        ("action=consume&name=b", "Yes: read '^b' matches 'b'."),
        ("action=declare-queue&name=b", "No: configure '' does not match 'b'."),
        ("action=bind-queue&name=b", "No: write '^a' does not match 'b'."),
    ],
)
async def test_may_he_is_answered_with_the_rule_that_decides(
    browser: Browser, question: str, answer: str
) -> None:
    rule = TopicPermission("amq.topic", "^w", "")
    await browser.node.users.set_topic_permission("b/b", "/", rule)
    page = await browser.page(f"{HERE}?vhost=%2F&{question}")
    assert page.one("p", role="status").text.startswith(answer)
    (chosen,) = page.one("select", id="action").all("option", selected="")
    assert f"action={chosen['value']}&" in question


async def test_a_question_that_cannot_be_is_refused_on_the_page(browser: Browser) -> None:
    page = await browser.page(f"{HERE}?vhost=none&action=consume&name=q")
    assert page.one("p", role="alert").text == "No vhost 'none'."
    page = await browser.page(f"{HERE}?vhost=%2F&action=fly&name=q")
    assert page.all("p", role="status") == page.all("p", role="alert") == []


async def test_a_vhost_is_shown_and_changed(browser: Browser) -> None:
    node, here = browser.node, "/vhosts/v%2Fw"
    await browser.send("/vhosts", "/do/put-vhost", name="v/w", description="for w")
    assert here in [each["href"] for each in (await browser.page("/vhosts")).all("a")]
    page = await browser.page(here)
    assert "Description for w" in page.text
    assert page.one("p", class_="keys").text == "Ready 0 Unacknowledged 0"
    page = await browser.page(f"{here}/permissions")
    assert ["ann", ".*", ".*", ".*"] in page.rows()  # who made it

    limits = f"{here}/limits"
    await browser.send(limits, "/do/put-vhost-limit", limit="max-queues", value="3")
    assert [row[:3] for row in (await browser.page(limits)).rows()] == [["max-queues", "3", "0"]]
    await browser.send(limits, "/do/clear-vhost-limit")
    assert "It has no limit." in (await browser.page(limits)).text
    await browser.send(f"{here}/settings", "/do/put-tracing", tracing="on")
    assert node.traced == [("v/w", True)]
    await browser.send(f"{here}/permissions", "/do/put-permission", user="b/b", read="^z")
    assert node.users.permissions.of_user("b/b")["v/w"].read == "^z"
    answer = await browser.send(f"{here}/danger", "/do/delete-vhost", confirm="v/w")
    assert answer.page.one("h1").text == "Virtual hosts"


async def test_others_see_that_a_vhost_is_there_and_no_more(browser: Browser) -> None:
    await browser.sign_in_as("carol", "management")
    await browser.node.users.set_permissions("carol", "/", ALL)
    page = await browser.page("/vhosts")
    assert [row[0] for row in page.rows()] == ["/"]
    assert not page.all("a", href="/vhosts/%2F")
    assert (await browser.get("/vhosts/%2F")).status == 403


async def test_a_vhost_can_be_added_when_none_is_left(browser: Browser) -> None:
    await browser.node.users.clear_permissions("ann", "/")
    await browser.node.broker.vhosts.delete("/")
    answer = await browser.send("/vhosts", "/do/put-vhost", name="again")
    assert ["again"] in [row[:1] for row in answer.page.rows()]
