"""A request of a page, what the page asks of the HTTP API for it, and what it answers."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Listing, Pieces, Row, Value, as_json
from routelog.management.calls.broker_side import FindingLimits
from routelog.management.calls.caller import Caller
from routelog.management.calls.failures import Refused
from routelog.management.calls.listing import OUT_OF_RANGE, ListQuery, items_of, list_query, page_of
from routelog.management.pages.sessions import Session

# Tags of those who may change something by the page; who has `monitoring` alone, looks on.
CHANGING_TAGS = frozenset(("management", "policymaker", "administrator"))

Parts = Mapping[str, str]
NOTHING: Parts = {}
FIRST_ROWS = list_query({"page_size": "200"})  # of a list that is one part of a page
ONE_ROW = list_query({"page_size": "1"})  # its head says how many there are


class Api(Protocol):
    """The HTTP API, called in this process: it checks and notes whatever it does, as over HTTP.

    Paths are written as its table of routes has them, such as /queues/{vhost}/{name}; what their parts may be,
    as in {kind:[qe]}, can be left out.
    """

    @property
    def document(self) -> Row:
        """Its OpenAPI document."""

    def opens(self, caller: Caller, method: str, path: str) -> bool:
        """Whether the caller's tags open a route."""

    async def ask(
        self,
        caller: Caller,
        address: str,
        method: str,
        path: str,
        parts: Parts,
        query: Parts,
        body: bytes,
    ) -> Answer:
        """The answer to a request; an error that has no answer is raised."""


@dataclass(frozen=True, slots=True)
class Table:
    """One page of a list.

    Attributes:
        found: rows on all pages, after the filter; `total` are those without it.
    """

    rows: list[Row]
    page: int
    pages: int
    found: int
    total: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A page that is shown."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """The browser is sent to another page of ours, by its path."""

    to: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A JSON document that the browser saves as a file."""

    pieces: AsyncIterator[bytes]
    file_name: str


Shows = Shown | Moved | Saved


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a user who has signed in.

    Attributes:
        parts: of the page's path, by name, decoded.
        query, form: the values of each name, in order.
        limits: what is too little to be a finding.
    """

    caller: Caller
    session: Session
    address: str
    api: Api
    parts: Parts = field(default_factory=dict)
    query: Mapping[str, list[str]] = field(default_factory=dict)
    form: Mapping[str, list[str]] = field(default_factory=dict)
    limits: FindingLimits = field(default_factory=FindingLimits)
    _found: list[Any] = field(default_factory=list, init=False)

    @property
    def may_change(self) -> bool:
        """Whether the page offers changes to the user at all."""
        return not CHANGING_TAGS.isdisjoint(self.caller.tags)

    def opens(self, method: str, path: str) -> bool:
        """Whether the user may try a call of the API; permissions on queues and the like are checked by it."""
        is_allowed = method == "GET" or self.may_change
        return is_allowed and self.api.opens(self.caller, method, path)

    def asked(self, name: str) -> str:
        """What the query says of a name; empty when it says nothing."""
        return self.query.get(name, [""])[0]

    def here(self, **other: str) -> str:
        """A query as this one, but for some names; an empty value takes one out."""
        said = {**self.query, **{name: [value] for name, value in other.items()}}
        return "?" + urlencode(
            {name: [v for v in values if v] for name, values in said.items()}, doseq=True
        )

    def field(self, name: str) -> str:
        """What a form says in a field; empty when it has none of this name."""
        return self.form.get(name, [""])[0]

    def within(self, all_of_them: str, of_vhost: str) -> tuple[str, Parts]:
        """A path of the API and its parts: for the things of the chosen vhost, or for those of all."""
        chosen = self.session.vhost
        return (of_vhost, {"vhost": chosen}) if chosen else (all_of_them, NOTHING)

    async def ask(
        self,
        method: str,
        path: str,
        parts: Parts = NOTHING,
        query: Parts = NOTHING,
        body: object = None,
    ) -> Answer:
        """Ask the API.

        Raises:
            Refused: it answers with an error.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        return await self.ask_as_sent(method, path, parts, query, content)

    async def ask_as_sent(
        self, method: str, path: str, parts: Parts, query: Parts, content: bytes
    ) -> Answer:
        """Ask the API with a body as a client sends it.

        Raises:
            Refused: it answers with an error.
        """
        return await self.api.ask(self.caller, self.address, method, path, parts, query, content)

    async def get(self, path: str, parts: Parts = NOTHING, query: Parts = NOTHING) -> Any:
        """One thing, whatever its status says of it."""
        return await value_of(await self.ask("GET", path, parts, query))

    async def findings(self) -> Any:
        """What is wrong, asked once: it looks at all queues."""
        if not self._found:
            self._found.append(await self.get("/findings"))
        return self._found[0]

    async def table(
        self,
        path: str,
        query: ListQuery,
        parts: Parts = NOTHING,
        more: Parts = NOTHING,
        wanted: Parts = NOTHING,
    ) -> Table:
        """One page of a list; the first one, when the query asks for one behind the last.

        Args:
            more: a query of the API for the rows of this page alone, such as for samples.
            wanted: a query of the API that says which rows there are.
        """
        answer = await self.ask("GET", path, parts, wanted)
        assert isinstance(answer, Listing)
        number = query.page or 1
        try:
            head, items = await page_of(answer, query, number)
        except Refused as error:
            if error.error != OUT_OF_RANGE:
                raise
            return await self.table(path, replace(query, page=1), parts, more, wanted)
        if number > 1 and not items:  # behind an exact last page
            return await self.table(path, replace(query, page=1), parts, more, wanted)
        detailed = await self.ask("GET", path, parts, {**wanted, **more}) if more else answer
        assert isinstance(detailed, Listing)
        in_slices = in_turns(items, Lane.OPERATORS)
        rows = [row async for item in in_slices if (row := as_json(detailed.describe(item)))]
        return Table(
            rows, head["page"], head["page_count"], head["filtered_count"], head["total_count"]
        )


async def value_of(answer: Answer) -> Any:
    """What an answer says: a JSON value, or None."""
    if isinstance(answer, Value):
        return as_json(answer.value)
    if isinstance(answer, Listing):
        items = in_turns(await items_of(answer), Lane.OPERATORS)
        return [row async for item in items if (row := as_json(answer.describe(item)))]
    if isinstance(answer, Pieces):
        return msgspec.json.decode(b"".join([piece async for piece in answer.pieces]))
    return None
