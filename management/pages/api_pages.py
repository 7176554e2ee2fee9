"""The HTTP API's own pages: what it can do, and a form to try each operation, from its OpenAPI document."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec

from routelog.management.calls.answer import Answer, Empty, Listing, Pieces, Row, Stored, Value
from routelog.management.calls.failures import Refused, not_found
from routelog.management.calls.listing import list_query, listed
from routelog.management.calls.path_template import filled
from routelog.management.pages.changes import Field
from routelog.management.pages.visit import Shown, Shows, Visit

API = "/api-docs"
OPERATION = f"{API}/{{operation}}"

ROWS = "20"  # of a list that is tried
SHOWN_BYTES_MAX = 65_536  # of an answer
_PREFIX = "/api"


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path, as the document has it.

    Attributes:
        row: what the document says of it.
    """

    method: str
    path: str
    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        """In the address of its page."""
        return str(self.row["operationId"])

    def parameters(self, where: str) -> list[Mapping[str, Any]]:
        """Those of the path, or of the query."""
        return [each for each in self.row["parameters"] if each["in"] == where]

    @property
    def body(self) -> Any:
        """The schema of its body; None: it takes none."""
        taken = self.row.get("requestBody")
        return None if taken is None else taken["content"]["application/json"]["schema"]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying an operation.

    Attributes:
        path: with its query, as it was asked for.
        body: that was sent.
    """

    method: str
    path: str
    body: str
    status: int
    text: str
    is_cut: bool

    def curl(self, origin: str, user: str) -> str:
        """The request as a command of curl."""
        words = ["curl", "-u", user, "-X", self.method, f"{origin}{self.path}"]
        if self.body:
            words += ["-H", "Content-Type: application/json", "-d", self.body]
        return shlex.join(words)


async def list_operations(visit: Visit) -> Shows:
    """All operations that have a text in their path or summary."""
    text = visit.asked("text").lower()
    found = [
        each
        for each in _operations(visit)
        if text in f"{each.method} {each.path} {each.row['summary']}".lower()
    ]
    return Shown("operations.html", {"operations": found, "text": visit.asked("text")})


async def show_operation(visit: Visit) -> Shows:
    """One operation, and what it answers when it is tried."""
    name = visit.parts["operation"]
    found = next((each for each in _operations(visit) if each.name == name), None)
    if found is None:
        raise not_found("operation", name)
    is_tried = "try" in visit.query if found.method == "GET" else bool(visit.form)
    said = _said(visit)
    tried = await _tried(visit, found, said) if is_tried else None
    return Shown(
        "operation.html",
        {
            "operation": found,
            "fields": list(_fields(found, said)),
            "body": said.get("body", ""),
            "tried": tried,
            "schemas": dict(_schemas(visit, found)),
        },
    )


def _fields(operation: Operation, said: Mapping[str, str]) -> Iterator[Field]:
    for where in ("path", "query"):
        for each in operation.parameters(where):
            name, schema = f"{where}.{each['name']}", each["schema"]
            choices = schema.get(
                "enum", ("true", "false") if schema.get("type") == "boolean" else ()
            )
            hint = ": ".join(filter(None, (each.get("description", ""), ", ".join(choices))))
            yield Field(name, each["name"], value=said.get(name, ""), hint=hint)


def _operations(visit: Visit) -> Iterator[Operation]:
    for path, methods in visit.api.document["paths"].items():
        for method, row in methods.items():
            yield Operation(method.upper(), path, row)


def _schemas(visit: Visit, operation: Operation) -> Iterator[tuple[str, Any]]:
    # By name, all that the operation's own schemas lead to.
    known = visit.api.document["components"]["schemas"]
    left, seen = [operation.row], set[str]()
    while left:
        text = msgspec.json.encode(left.pop()).decode()
        for part in text.split('"#/components/schemas/')[1:]:
            name = part.partition('"')[0]
            if name not in seen:
                seen.add(name)
                left.append(known[name])
                yield name, known[name]


def _said(visit: Visit) -> dict[str, str]:
    # Fields are named path.NAME and query.NAME, so that none is taken for another.
    fields = {**visit.query, **visit.form}
    return {name: values[0] for name, values in fields.items() if values}


async def _tried(visit: Visit, operation: Operation, said: Mapping[str, str]) -> Tried:
    parts = {
        each["name"]: said.get(f"path.{each['name']}", "") for each in operation.parameters("path")
    }
    query = {
        each["name"]: value
        for each in operation.parameters("query")
        if (value := said.get(f"query.{each['name']}", ""))
    }
    body = said.get("body", "")
    path = operation.path.removeprefix(_PREFIX)
    asked = f"?{urlencode(query)}" if query else ""
    tried = operation.method, f"{filled(operation.path, parts)}{asked}", body
    try:
        answer = await visit.ask_as_sent(operation.method, path, parts, query, body.encode())
        status, content = await _content(answer, query)
    except Refused as error:
        row: Row = {"error": error.error, "reason": error.reason}
        status, content = error.status, msgspec.json.encode(row)
    cut = content[:SHOWN_BYTES_MAX]
    if len(content) <= SHOWN_BYTES_MAX and content[:1] in (b"{", b"["):
        cut = msgspec.json.format(content, indent=2)
    return Tried(*tried, status, cut.decode(errors="replace"), len(content) > SHOWN_BYTES_MAX)


async def _content(answer: Answer, query: Mapping[str, str]) -> tuple[int, bytes]:
    if isinstance(answer, Empty):
        return answer.status, b""
    if isinstance(answer, Value):
        return answer.status, msgspec.json.encode(answer.value)
    if isinstance(answer, Stored):
        size = answer.stretch.size
        answer.stretch.close()
        return 200, f"({size} bytes of record batches)".encode()
    if isinstance(answer, Listing):
        answer = Pieces(await listed(answer, list_query({"page": "1", "page_size": ROWS, **query})))
    content = bytearray()
    async for piece in answer.pieces:
        content += piece
        if len(content) > SHOWN_BYTES_MAX:
            break
    return 200, bytes(content)
