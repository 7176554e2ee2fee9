"""The OpenAPI document of the HTTP API, made from the table of routes and the types that its handlers name."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, TypedDict

import msgspec

from routelog.management.calls.answer import Row
from routelog.management.calls.call import FILE, LINES
from routelog.management.calls.file_form import FORM
from routelog.management.calls.listing import COLUMNS, ORDER, PAGES
from routelog.management.calls.operation import Operation, Parameter
from routelog.management.calls.path_template import PART, plain
from routelog.management.server.routes import Route

_JSON = "application/json"
_DONE = {
    200: "what was asked for",
    201: "something was made",
    204: "it is done, and there is nothing to say",
}


class Failure(TypedDict):
    """Why a request is refused."""

    error: str
    reason: str


def operation_id(route: Route) -> str:
    """What an operation is called."""
    return re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_")


@cache
def openapi_document(routes: tuple[Route, ...], version: str) -> Row:
    """Paths, methods, who may call them, what they take and what they answer.

    A handler's docstring is the summary.
    """
    types = list(dict.fromkeys(each for route in routes for each in _types(route.operation)))
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, Row] = {}
    for route in routes:
        methods = paths.setdefault(f"/api{plain(route.path)}", {})
        methods[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "RouteLog management", "version": version},
        "components": {
            "schemas": components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
        "security": [{"basic": []}],
        "paths": paths,
    }


def query_of(route: Route) -> dict[str, Parameter]:
    """All parameters of the query of a route."""
    operation = route.operation
    found = dict(operation.query)
    if operation.has_pages:
        found |= PAGES
    if operation.is_list:
        found |= ORDER
    if route.method == "GET" and operation.answer not in (None, bytes):
        found |= COLUMNS
    return found


def _types(operation: Operation) -> Iterator[Any]:
    yield Failure
    for each in (operation.answer, operation.body, operation.failure):
        if each is not None:
            yield each
    for parameter in (
        *operation.query.values(),
        *PAGES.values(),
        *ORDER.values(),
        *COLUMNS.values(),
    ):
        yield parameter.type


def _operation(route: Route, schemas: dict[Any, Row]) -> Row:
    operation = route.operation
    doc = (route.handler.__doc__ or "").strip().splitlines()
    row: Row = {
        "operationId": operation_id(route),
        "tags": [route.path.split("/")[1]],
        "summary": doc[0],
        "description": f"Needs the tag {route.need.value}, or one that includes it.",
        "parameters": [
            *_of_path(route.path),
            *(
                {
                    "name": name,
                    "in": "query",
                    "description": each.meaning,
                    "required": each.is_needed,
                    "schema": schemas[each.type],
                }
                for name, each in query_of(route).items()
            ),
        ],
        "responses": dict(_responses(operation, schemas)),
    }
    if operation.body is not None:
        # Not required: an empty body is an empty object.
        content = {_JSON: {"schema": schemas[operation.body]}}
        if operation.takes_form:
            file = {"type": "string", "contentMediaType": _JSON}
            form = {"type": "object", "required": [FILE], "properties": {FILE: file}}
            content[FORM] = {"schema": form}
        if operation.takes_lines:
            content[LINES] = {"schema": {"type": "string"}}
        row["requestBody"] = {"content": content}
    return row


def _of_path(path: str) -> Iterator[Row]:
    for name, pattern in PART.findall(path):
        schema: Row = {"type": "string", "minLength": 1}
        if pattern:
            schema = {"type": "string", "pattern": f"^{pattern}$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _responses(operation: Operation, schemas: dict[Any, Row]) -> Iterator[tuple[str, Row]]:
    for at, status in enumerate(operation.statuses):
        answer: Row = {"description": _DONE[status]}
        if operation.answer is bytes:
            answer["content"] = {"application/octet-stream": {}}
        elif operation.answer is not None and at == 0:
            answer["content"] = {_JSON: {"schema": _answered(operation, schemas)}}
        yield str(status), answer
    refused = {"description": "refused", "content": {_JSON: {"schema": schemas[Failure]}}}
    failed = schemas[Failure]
    if operation.failure is not None:
        failed = {"anyOf": [schemas[operation.failure], failed]}
    yield "4XX", refused
    yield "503", {"description": "not well, or too busy", "content": {_JSON: {"schema": failed}}}


def _answered(operation: Operation, schemas: dict[Any, Row]) -> Row:
    schema = schemas[operation.answer]
    if not operation.is_list:
        return schema
    whole = {"type": "array", "items": schema}
    if not operation.has_pages:
        return whole
    numbers = (
        "filtered_count",
        "item_count",
        "page",
        "page_count",
        "page_size",
        "total_count",
    )
    page = {
        "type": "object",
        "required": [*numbers, "items"],
        "properties": {**{name: {"type": "integer"} for name in numbers}, "items": whole},
    }
    return {"anyOf": [whole, page]}
