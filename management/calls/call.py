"""One request, as the handlers see it."""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin

import msgspec
from aiohttp import web

from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.caller import Caller
from routelog.management.calls.failures import Refused, bad_request
from routelog.management.calls.file_form import FORM, BadForm, fields_of_form
from routelog.management.calls.json_turns import (
    decoded_in_turns,
    elements_in_turns,
    lines_in_turns,
)
from routelog.management.calls.log_tokens import LogTokens
from routelog.management.calls.operation import Parameter, Query
from routelog.management.sampling.sampler import Sampler
from routelog.management.sampling.statistics import BadSpan, Statistics
from routelog.vhosts import MalformedJson, VirtualHost

LINES = "application/x-ndjson"  # a JSON value in each line
FILE = "file"  # the field, as in RabbitMQ

BODY_BYTES_MAX = 1024 * 1024  # RabbitMQ's limit is larger, but only definitions need more
DEFINITIONS_BYTES_MAX = 20 * 1024 * 1024  # RabbitMQ's limit for all bodies
BODY_SECONDS_MAX = 300.0  # for a body to come: the largest one at 70 KB/s
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_AGE = Annotated[int, msgspec.Meta(ge=0, le=999_999)]
_INCR = Annotated[int, msgspec.Meta(ge=1, le=999_999)]
# Of whatever has counts: see `Call.statistics`.
STATISTICS: Query = {
    f"{kind}_{name}": Parameter(f"of samples of {of}: {meaning}, in seconds", type_)
    for kind, of in (
        ("lengths", "numbers of messages"),
        ("msg_rates", "counts of messages"),
        ("data_rates", "bytes"),
    )
    for name, meaning, type_ in (
        ("age", "how old the first is", _AGE),
        ("incr", "the time between two", _INCR),
    )
}
DISABLE_STATS: Query = {
    "disable_stats": Parameter("without statistics and counts", bool),
    "enable_queue_totals": Parameter("with numbers of messages all the same", bool),
}
_BLANK = re.compile(rb"\s*")
_BOOLEANS = {"true": True, "false": False}


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _file_in_form(content_type: str, body: bytearray) -> bytes:
    for name, content in fields_of_form(content_type, body):
        if name == FILE:
            return content
    raise BadForm(f"the form has no field '{FILE}'")


@asynccontextmanager
async def in_body_time() -> AsyncIterator[None]:
    """Read a body, which has to come in time.

    Raises:
        Refused: it did not, or is not encoded as its headers say.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            yield
    except TimeoutError:
        reason = f"the body did not come within {BODY_SECONDS_MAX:g} seconds"
        raise Refused(408, "request_timeout", reason) from None
    except web.RequestPayloadError:
        raise bad_request("the body is malformed") from None


class Content(Protocol):
    """The body of a request."""

    def iter_any(self) -> AsyncIterable[bytes]:
        """Pieces as they come."""


class Asked(Protocol):
    """What a call reads of its request: one over HTTP, or one that the web page makes in this process."""

    @property
    def match_info(self) -> Mapping[str, str]:
        """The named parts of the path, decoded."""

    @property
    def query(self) -> Mapping[str, str]:
        """The query."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, whose names are of any case."""

    @property
    def path(self) -> str:
        """The path, decoded."""

    @property
    def content(self) -> Content:
        """The body."""


class Call:
    """A request whose caller is authenticated and allowed to make it.

    Attributes:
        vhost: named by the path; only routes with a vhost may read it.
        is_dry_run: set by a handler that only says what it would do: the log is not told of a change.
        query: of a repeated name, the first value.
        tokens: of logs.
        sampler: of the node's counters.
        on_body: called when the body is there, or another wait is over, which may be long after the caller was
            let in; it may raise.

    Args:
        known: the parameters of the query that there are; None: any.
    """

    vhost: VirtualHost

    def __init__(
        self,
        request: Asked,
        broker: BrokerSide,
        caller: Caller,
        tokens: LogTokens,
        sampler: Sampler,
        known: Query | None = None,
    ) -> None:
        self._request = request
        self.broker = broker
        self.caller = caller
        self.tokens = tokens
        self.sampler = sampler
        self.is_dry_run = False
        self.on_body: Callable[[], None] = lambda: None
        asked = request.query
        if known is None:
            self.query = asked
        else:
            self.query = {name: asked[name] for name in known if name in asked}

    @property
    def has_vhost(self) -> bool:
        """Whether the path names a vhost."""
        return "vhost" in self._request.match_info

    def seen_vhosts(self) -> list[VirtualHost]:
        """The vhosts whose contents the caller may see."""
        return [vhost for vhost in self.broker.vhosts.all() if self.caller.sees(vhost.name)]

    @property
    def parts(self) -> Mapping[str, str]:
        """All parts of the path, decoded."""
        return self._request.match_info

    def path(self, name: str) -> str:
        """A part of the path, decoded."""
        return self._request.match_info[name]

    def is_under(self, path: str) -> bool:
        """Whether the path begins with this, after /api."""
        return self._request.path.startswith(f"/api{path}")

    def flag(self, name: str) -> bool:
        """Whether a query parameter is set to true."""
        return self.query.get(name) == "true"

    def statistics(self) -> Statistics:
        """What counters say, with the samples that the query asks for.

        Raises:
            Refused: it asks for what cannot be.
        """
        try:
            return Statistics(self.sampler, self.broker.clock, self.query)
        except BadSpan as error:
            raise bad_request(str(error)) from None

    def header(self, name: str) -> str:
        """A header; empty when it is missing. Octets that are no UTF-8 are replaced."""
        text = self._request.headers.get(name, "")
        return text.encode(errors="surrogateescape").decode(errors="replace")

    async def json(self) -> Any:
        """The body, decoded; an empty one is an empty object.

        Raises:
            Refused: it is too large, or no JSON.
        """
        return await _decoded(await self.content(BODY_BYTES_MAX))

    async def document(self, *, bytes_max: int) -> Any:
        """The body as of `json`, or the file in it if it is a form.

        Raises:
            Refused: it is too large, no JSON, or a form without a file.
        """
        body, content_type = await self.content(bytes_max), self.header("Content-Type")
        try:
            is_form = _kind(content_type) == FORM
            return await _decoded(_file_in_form(content_type, body) if is_form else body)
        except BadForm as error:
            raise bad_request(str(error)) from None

    async def content(
        self, bytes_max: int, received: Callable[[int], None] = lambda size: None
    ) -> bytearray:
        """The body as it came.

        Args:
            received: called with the size of each piece.

        Raises:
            Refused: it is too large, or came too late; or the caller may not any more.
        """
        body = bytearray()
        async with in_body_time():
            async for piece in self._request.content.iter_any():
                received(len(piece))
                body += piece
                if len(body) > bytes_max:
                    raise Refused(
                        413, "payload_too_large", f"the body is larger than {bytes_max} bytes"
                    )
        self.on_body()
        return body

    async def elements(
        self, *, bytes_max: int, received: Callable[[int], None]
    ) -> AsyncIterator[Any]:
        """The elements of a body that is an array, or has one in each line, in turns of the event loop.

        Args:
            received: called with the size of each piece of the body.

        Raises:
            Refused: it is too large, or no JSON.
        """
        body = await self.content(bytes_max, received)
        is_lines = _kind(self.header("Content-Type")) == LINES
        try:
            async for element in lines_in_turns(body) if is_lines else elements_in_turns(body):
                yield element
        except MalformedJson as error:
            raise bad_request(f"not_json: {error}") from None

    async def body(self, kind: type[_Struct]) -> _Struct:
        """The body as an object of a kind; unknown keys are ignored.

        Raises:
            Refused: it is no such object.
        """
        return converted(await self.json(), kind)


def converted(content: Any, kind: type[_Struct]) -> _Struct:
    """Decoded JSON as an object of a kind; unknown keys are ignored.

    Raises:
        Refused: it is no such object.
    """
    if not isinstance(content, dict):
        raise bad_request("not_json")
    try:
        return msgspec.convert(_with_values(content, kind), kind)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None


async def _decoded(body: bytes | bytearray) -> Any:
    try:
        return {} if _BLANK.fullmatch(body) else await decoded_in_turns(body)
    except MalformedJson as error:
        raise bad_request(f"not_json: {error}") from None


def _with_values(content: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The content with what tools write in another way: booleans as text, and an empty object as a list."""
    for field in msgspec.structs.fields(kind):
        said = content.get(field.encode_name)
        kinds = get_args(field.type) or (field.type,)
        if isinstance(said, str) and bool in kinds:  # rabbitmqadmin
            content[field.encode_name] = _BOOLEANS.get(said, said)
        elif said == [] and get_origin(field.type) is dict:  # PHP, whose arrays are both
            content[field.encode_name] = {}
    return content
