"""A request's parts and its body."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.call import BODY_BYTES_MAX
from routelog.management.calls.failures import Refused
from routelog.management.views.queues import QueueBody


async def test_parts_queries_and_headers_are_decoded(node: ManagedNode) -> None:
    headers = {"X-Reason": "maintenance"}
    call = node.call(path="/api/x/y", query="a=true&b=1&a=false", headers=headers, name="n/1")
    assert (call.path("name"), call.has_vhost) == ("n/1", False)
    assert (call.query["a"], call.flag("a"), call.flag("b"), call.flag("c")) == (
        "true",
        True,
        False,
        False,
    )
    assert (call.is_under("/x"), call.is_under("/y")) == (True, False)
    assert (call.header("x-reason"), call.header("x-other")) == ("maintenance", "")


@pytest.mark.parametrize(
    ("body", "value"), [(b"", {}), (b" \n", {}), (b"[1]", [1]), (b"null", None)]
)
async def test_a_body_is_json(node: ManagedNode, body: bytes, value: object) -> None:
    assert await node.call(body=body).json() == value


@pytest.mark.parametrize("body", [b"{", b"\xff", b'"\xff"', b"[" * 100_000, b"1 2"])
async def test_what_is_no_json_is_refused(node: ManagedNode, body: bytes) -> None:
    with pytest.raises(Refused, match="not_json"):
        await node.call(body=body).json()


async def test_a_body_has_a_size(node: ManagedNode) -> None:
    body = {"a": "x" * BODY_BYTES_MAX}
    with pytest.raises(Refused, match="larger than") as raised:
        await node.call(body=body).json()
    assert raised.value.status == 413
    assert await node.call(body=body).json(bytes_max=2 * BODY_BYTES_MAX) == body


async def test_a_body_is_an_object_of_its_kind(node: ManagedNode) -> None:
    body = {"durable": "false", "arguments": [], "of nobody": 1}
    found = await node.call(body=body).body(QueueBody)
    assert (found.durable, found.auto_delete, found.arguments) == (False, False, {})
    for wrong in ({"durable": "perhaps"}, {"arguments": [1]}, [1], "text"):
        with pytest.raises(Refused) as raised:
            await node.call(body=wrong).body(QueueBody)
        assert raised.value.status == 400
