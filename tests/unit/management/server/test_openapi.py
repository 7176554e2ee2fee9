"""The table of routes, and the document that is made from it."""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from unit.management.managed_node import ManagedNode

from routelog.management.calls.caller import Need
from routelog.management.calls.operation import (
    UNSAID,
    Operation,
    Parameter,
    answers,
    operation_of,
)
from routelog.management.server.openapi import openapi_document
from routelog.management.server.routes import ROUTES, Route


def test_no_two_routes_answer_the_same() -> None:
    shapes = Counter((route.method, re.sub(r"\{\w+", "{", route.path)) for route in ROUTES)
    assert [shape for shape, count in shapes.items() if count > 1] == []


def test_get_answers_head_and_nothing_else_does() -> None:
    for route in ROUTES:
        assert route.methods == (
            (route.method, "HEAD") if route.method == "GET" else (route.method,)
        )


def test_the_document_has_every_route_with_its_parameters_and_need() -> None:
    document = openapi_document(ROUTES, "0.1")
    assert document["info"]["version"] == "0.1"
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(ROUTES)
    assert len({each["operationId"] for each in operations}) == len(ROUTES)
    for path, methods in document["paths"].items():
        assert path.startswith("/api/")
        for operation in methods.values():
            named = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert named == re.findall(r"\{(\w+)\}", path)
            assert operation["summary"].endswith((".", ":"))
    put = document["paths"]["/api/queues/{vhost}/{name}"]["put"]
    assert put["description"] == "Needs the tag management, or one that includes it."
    assert put["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/QueueBody"
    }
    assert set(put["responses"]) == {"201", "204", "4XX", "503"}


def test_a_list_is_answered_whole_or_in_pages_and_has_parameters_for_both() -> None:
    listed = openapi_document(ROUTES, "0.1")["paths"]["/api/queues"]["get"]
    named = {each["name"]: each for each in listed["parameters"]}
    assert {"page", "sort", "columns", "lengths_age", "disable_stats"} <= named.keys()
    assert named["page_size"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 500}
    whole, page = listed["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert whole["items"] == {"$ref": "#/components/schemas/QueueRow"}
    assert page["properties"]["items"] == whole
    listed = openapi_document(ROUTES, "0.1")["paths"]["/api/users"]["get"]
    assert {each["name"] for each in listed["parameters"]} == {"sort", "sort_reverse", "columns"}
    schema = listed["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"type": "array", "items": {"$ref": "#/components/schemas/UserRow"}}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = openapi_document(ROUTES, "0.1")
    text = msgspec.json.encode(document).decode()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names
    assert names <= document["components"]["schemas"].keys()


def test_every_handler_says_what_it_takes_and_answers() -> None:
    unsaid = [f"{each.method} {each.path}" for each in ROUTES if each.operation is UNSAID]
    assert unsaid == [], "say it above the handler: management/calls/operation.py"


def bodies_read_by(handler: Any) -> Iterator[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(handler))))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "call.body":
            yield ast.unparse(node.args[0])


def test_a_handler_reads_the_body_that_the_document_names() -> None:
    for route in ROUTES:
        for read in bodies_read_by(route.handler):
            assert read == route.operation.body.__name__, route


async def test_a_handler_sees_the_parameters_that_the_document_names(node: ManagedNode) -> None:
    known = {"a": Parameter("known"), "c": Parameter("known, and not said")}
    call = node.call(query="a=1&b=2", known=known)
    assert call.query == {"a": "1"}
    assert not call.flag("b")


def test_what_is_said_of_a_handler_is_found_behind_what_wraps_it() -> None:
    @answers(int, failure=str)
    def handler(call: object) -> int:
        """One."""
        return 1

    assert operation_of(handler) == Operation(int, failure=str)
    document = openapi_document((Route("GET", "/one", Need.LOGIN, handler),), "0.1")
    failed = document["paths"]["/api/one"]["get"]["responses"]["503"]["content"]
    assert {"type": "string"} in failed["application/json"]["schema"]["anyOf"]
