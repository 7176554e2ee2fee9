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


async def test_a_byte_order_mark_is_passed_over(node: ManagedNode) -> None:
    assert await node.call(body=b'\xef\xbb\xbf{"a": 1}').json() == {"a": 1}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"users": [\n  {"name": "x",}\n]}', "line 2, column 16: trailing comma in object"),
        ('{"ü": "é", x}'.encode(), "line 1, column 12: "),
        (b'{"a": 1', "line 1, column 8: it ends too early"),
        (b'{"a": "\xff"}', "it is not UTF-8"),
        (b"[" * 10_000, "it is nested too deeply"),
    ],
)
async def test_what_is_no_json_is_said_by_line_and_column(
    node: ManagedNode, body: bytes, where: str
) -> None:
    with pytest.raises(Refused) as raised:
        await node.call(body=body).json()
    assert raised.value.reason.startswith(f"not_json: {where}")


FORM = {"Content-Type": "multipart/form-data; boundary=b-b"}


def form(name: str, content: bytes) -> bytes:
    head = f'--b-b\r\nContent-Disposition: form-data; name="{name}"; filename="d.json"\r\n'
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + content + b"\r\n"


@pytest.mark.parametrize("content", [b'{"a":\r\n 1}', b'\xef\xbb\xbf{"a": 1}'])
async def test_a_document_may_be_a_file_in_a_form(node: ManagedNode, content: bytes) -> None:
    body = form("redirect", b"../") + form("file", content) + b"--b-b--\r\n"
    assert await node.call(body=body, headers=FORM).document(bytes_max=1_000) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (form("other", b"{}") + b"--b-b--", FORM["Content-Type"], "no field 'file'"),
        (b"", FORM["Content-Type"], "no field 'file'"),
        (b"--b-b--", FORM["Content-Type"], "no field 'file'"),
        (form("file", b"{}"), "multipart/form-data", "no boundary"),
        (form("file", b"{") + b"--b-b--", FORM["Content-Type"], "not_json"),
    ],
)
async def test_a_form_without_a_document_is_refused(
    node: ManagedNode, body: bytes, content_type: str, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await node.call(body=body, headers={"Content-Type": content_type}).document(bytes_max=1_000)


@pytest.mark.parametrize("body", [b"{", b"\xff", b'"\xff"', b"[" * 100_000, b"1 2"])
async def test_what_is_no_json_is_refused(node: ManagedNode, body: bytes) -> None:
    with pytest.raises(Refused, match="not_json"):
        await node.call(body=body).json()


async def test_a_body_has_a_size(node: ManagedNode) -> None:
    body = {"a": "x" * BODY_BYTES_MAX}
    with pytest.raises(Refused, match="larger than") as raised:
        await node.call(body=body).json()
    assert raised.value.status == 413
    assert await node.call(body=body).document(bytes_max=2 * BODY_BYTES_MAX) == body


async def test_a_body_is_an_object_of_its_kind(node: ManagedNode) -> None:
    body = {"durable": "false", "arguments": [], "of nobody": 1}
    found = await node.call(body=body).body(QueueBody)
    assert (found.durable, found.auto_delete, found.arguments) == (False, False, {})
    for wrong in ({"durable": "perhaps"}, {"arguments": [1]}, [1], "text"):
        with pytest.raises(Refused) as raised:
            await node.call(body=wrong).body(QueueBody)
        assert raised.value.status == 400
