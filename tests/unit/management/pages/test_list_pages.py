"""Pages that are one list: connections, users, permissions, policies, vhosts, nodes."""

import pytest
from unit.management.managed_node import Connection
from unit.management.page_browser import Browser

from routelog.exchanges import Exchange

LENGTH = {"definition.max-length": "1000"}


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


async def test_a_connection_is_closed(browser: Browser) -> None:
    node = browser.node
    connection = Connection("10.0.0.9:1 -> here", "ann", node.vhost)
    node.connections.open.append(connection)
    page = await browser.page("/connections?name=10.0")
    (row,) = page.rows()
    assert row[:3] == ["the 10.0.0.9:1 -> here 10.0.0.9:1 -> here", "ann", "/"]
    assert row[3] == "routelog@here"
    assert row[4].endswith("waits for memory")
    link = page.one("tbody").one("a")["href"]
    answer = await browser.send(f"{link}/danger", "/do/close-connection")
    assert answer.page.one("p", role="status").text == f"Connection {connection.name} is closed."
    assert node.connections.open == []
    assert "There is none" in (await browser.page("/channels")).text


async def test_users_and_permissions_are_set_and_taken_away(browser: Browser) -> None:
    node = browser.node
    said = {"user": "bob", "password": "x y", "tags": "monitoring"}
    answer = await browser.send("/users", "/do/put-user", **said)
    assert answer.page.rows()[-1][:2] == ["bob", "monitoring"]
    assert node.users.get("bob").password_hash == "hash of x y"
    assert "x y" not in answer.text
    await browser.send("/permissions", "/do/put-permission", user="bob", read="")
    permission = node.users.permissions.of_user("bob")["/"]
    assert (permission.configure, permission.read) == (".*", "")
    page = await browser.page("/permissions?sort=user&sort_reverse=true")
    assert page.rows()[0][:5] == ["bob", "/", ".*", ".*", "nothing"]
    clear = page.one("tbody").all("details", class_="how")[0]
    assert "routelog permission clear bob --vhost /" in clear.text
    answer = await browser.send(
        "/permissions?sort=user&sort_reverse=true", "/do/clear-permission", confirm="bob"
    )
    assert answer.status == 200
    assert node.users.permissions.of_user("bob") == {}
    answer = await browser.send("/users/bob/danger", "/do/delete-user", confirm="bob")
    assert answer.page.one("p", role="status").text == "User bob is deleted."


async def test_policies_and_vhosts_are_set_and_deleted(browser: Browser) -> None:
    answer = await browser.send("/policies", "/do/put-policy", name="p", pattern="^q", **LENGTH)
    assert answer.page.rows()[0][:4] == ["p /", "^q", "all", "max-length 1,000"]
    queue = await browser.node.queue("q")
    assert queue.effective.values == {"x-max-length": 1000}
    answer = await browser.send("/policies", "/do/put-policy", name="p")
    assert "it is empty" in answer.page.one("p", role="alert").text
    answer = await browser.send("/policies", "/do/delete-policy", confirm="p")
    assert answer.page.one("p", role="status").text == "The policy p is deleted."
    answer = await browser.send("/vhosts", "/do/put-vhost", name="v/w", description="for w")
    assert "v/w for w" in [row[0] for row in answer.page.rows()]
    answer = await browser.send("/vhosts/v%2Fw/danger", "/do/delete-vhost", confirm="v/w")
    assert answer.page.one("p", role="status").text.startswith("Virtual host v/w is deleted")


async def test_operator_policies_are_set_and_deleted(browser: Browser) -> None:
    page = "/operator-policies"
    answer = await browser.send(page, "/do/put-operator-policy", name="o", pattern="^q", **LENGTH)
    assert answer.page.rows()[0][:4] == ["o /", "^q", "all", "max-length 1,000"]
    (policy,) = browser.node.vhost.policies.book.all(operator=True)
    assert (policy.name, policy.is_operator) == ("o", True)
    how = answer.page.one("tbody").one("details", class_="how")
    assert "routelog policy clear o --vhost / --operator" in how.text
    answer = await browser.send(page, "/do/delete-operator-policy", confirm="o")
    assert answer.page.one("p", role="status").text == "The operator policy o is deleted."


async def test_consumers_are_listed_with_queue_and_channel(browser: Browser) -> None:
    node = browser.node
    node.connections.open.append(Connection("c", "ann", node.vhost, "q"))
    page = await browser.page("/consumers")
    assert page.rows() == [["tag c (1)", "q", "", "ann", "routelog@here", "up", "yes", "10", "2"]]
    links = [each["href"] for each in page.one("tbody").all("a")]
    assert links == ["/channels/c%20%281%29", "/queues/%2F/q"]


async def test_nodes_are_listed_with_what_they_use(browser: Browser) -> None:
    page = await browser.page("/nodes")
    assert page.rows()[0][:3] == ["routelog@here", "yes", "yes"]


async def test_exchanges_that_hold_messages_back_are_listed(browser: Browser) -> None:
    vhost = browser.node.vhost
    assert "No exchange here" in (await browser.page("/delayed")).text
    done = vhost.declare_exchange(
        Exchange("a/b", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    )
    assert done is None
    page = await browser.page("/delayed")
    assert page.rows() == [["a/b /", "0", "", "topic"]]
    assert page.one("tbody").one("a")["href"] == "/exchanges/%2F/a%2Fb/delayed"
