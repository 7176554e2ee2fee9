"""The broker's log over HTTP: filtered, the newest lines, and what came since the last question."""

from typing import Any

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import broker_log


def line(number: int, level: str = "info", message: str = "x", **fields: object) -> dict[str, Any]:
    return {"time": "t", "level": level, "logger": "l", "message": message, **fields} | {
        "number": number
    }


@pytest.fixture
async def telling(node: ManagedNode) -> ManagedNode:
    """A node that has logged six lines."""
    node.log_lines = [
        line(1, "debug", "connection accepted"),
        line(2, "info", "queue created", event="queue.created", by="ann", via="HTTP"),
        line(3, "info", "queue deleted", event="queue.deleted", by="bob", via="AMQP 0-9-1"),
        line(4, "warning", "login refused", event="user.authentication.failure", user="ann"),
        line(5, "error", "a fault", trace="Traceback"),
        line(6, "info", "HTTP request", event="http.changed", by="ann", via="HTTP"),
    ]
    return node


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("count=2", [5, 6]),
        ("level=warning", [4, 5]),
        ("event=queue.", [2, 3]),
        ("event=queue.deleted", [3]),
        ("user=ann", [2, 4, 6]),
        ("via=HTTP", [2, 6]),
        ("via=HTTP&event=queue", [2]),
        ("text=refused", [4]),
        ("since=4", [5, 6]),
        ("since=6", []),
        ("since=1970-01-01T00:00:00.005", [5, 6]),
    ],
)
async def test_lines_are_found(telling: ManagedNode, query: str, numbers: list[int]) -> None:
    found = await telling.ask(broker_log.get_log, query=query)
    assert [each["number"] for each in found["items"]] == numbers
    assert found["next"] == 6


async def test_without_any_line_the_next_question_is_the_same(node: ManagedNode) -> None:
    found = await node.ask(broker_log.get_log, query="since=17")
    assert found == {"items": [], "next": 17}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("level=loud", "level is debug, info"),
        ("count=0", "count is not between"),
        ("count=1001", "count is not between"),
        ("since=soon", "since is a time"),
        ("since=", "since is a time"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    telling: ManagedNode, query: str, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await telling.ask(broker_log.get_log, query=query)
