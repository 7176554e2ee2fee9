"""What other nodes of a cluster say of their clients: each is asked the same call, and answers for itself.

The node that leads answers all requests, and has nothing of the clients of other nodes but what these tell.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from routelog.log_backend import Lane, pause
from routelog.management.calls.answer import Answer, Empty, Listing, OtherRows, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import NOT_FOUND, UNAVAILABLE, Refused
from routelog.management.calls.listing import ListQuery
from routelog.vhosts import NodeAnswer, current_actor

_Row = TypeVar("_Row")


class NodeCall(msgspec.Struct, array_like=True):
    """A call of the API as other nodes are asked it, without a body; see `Caller` for who asks.

    The answer is JSON; that of a list is several lists, in pieces. If its first page is wanted, the answer
    begins with how many rows there are, without and with the filter.
    """

    method: str
    path: str
    parts: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    address: str
    name: str
    tags: tuple[str, ...]
    is_local: bool
    wanted: ListQuery | None


class NodeRefusal(msgspec.Struct, array_like=True):
    """A call is refused: see `Refused`."""

    status: int
    error: str
    reason: str


@dataclass(slots=True)
class OtherNodes:
    """The answers of other nodes to one call.

    Attributes:
        found: those that have what was asked for, in pieces of JSON.
        refusals: of nodes that do not do it; 404 is none, as most nodes do not have a single thing.
        silent: names of nodes that did not answer.
    """

    found: list[NodeAnswer] = field(default_factory=list)
    refusals: list[Refused] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    async def rows(self, kind: type[_Row]) -> list[_Row]:
        """The rows of their lists; each piece of an answer is a list."""
        rows: list[_Row] = []
        for answer in self.found:
            for piece in answer.pieces:
                rows += msgspec.json.decode(piece, type=list[kind])  # type: ignore[valid-type]
                await pause(Lane.OPERATORS)
        return rows

    def values(self, kind: type[_Row]) -> list[_Row]:
        """The value of each."""
        return [msgspec.json.decode(each.pieces[0], type=kind) for each in self.found]

    def check_all(self) -> None:
        """Refuse a change that a node did not make.

        Raises:
            Refused: one has refused it, or is silent.
        """
        if self.refusals:
            raise self.refusals[0]
        if self.silent:
            raise Refused(*UNAVAILABLE, self.missing()[-1])

    def missing(self) -> list[str]:
        """In words, why answers are not all there; empty when they are."""
        silent = [f"{' and '.join(self.silent)} did not answer"] if self.silent else []
        return [*(each.reason for each in self.refusals), *silent]


async def other_nodes(
    call: Call,
    path: str,
    method: str = "GET",
    headers: tuple[str, ...] = (),
    wanted: ListQuery | None = None,
) -> OtherNodes:
    """Ask all other nodes that serve clients the same call.

    Args:
        path: as the routes have it; its parts are those of the call.
        headers: that are asked along.
        wanted: the first page of a list; None: all of it.
    """
    actor, caller = current_actor(), call.caller
    asked = NodeCall(
        method,
        path,
        dict(call.parts),
        dict(call.query),
        {name: call.header(name) for name in headers},
        "" if actor is None else actor.address,
        caller.name,
        caller.tags,
        caller.is_local,
        wanted,
    )
    others = OtherNodes()
    for node, answer in (await call.broker.ask_nodes(msgspec.msgpack.encode(asked))).items():
        if answer is None or not answer.pieces[-1]:
            others.silent.append(node)
        elif not answer.has_failed:
            others.found.append(answer)
        else:
            said = msgspec.msgpack.decode(answer.pieces[-1], type=NodeRefusal)
            if said.status != NOT_FOUND[0]:
                others.refusals.append(Refused(said.status, said.error, said.reason))
    return others


def everywhere(call: Call, path: str, listing: Listing) -> Listing:
    """A list, with the rows of other nodes: of those each is asked for no more than a page needs."""
    describe = listing.describe

    def described(item: Any) -> object:
        return msgspec.json.decode(item) if isinstance(item, msgspec.Raw) else describe(item)

    return replace(listing, describe=described, others=partial(_other_rows, call, path))


async def _other_rows(call: Call, path: str, wanted: ListQuery | None) -> OtherRows:
    answers = await other_nodes(call, path, wanted=wanted)
    total = filtered = 0
    if wanted is not None:
        for answer in answers.found:
            counts = msgspec.json.decode(answer.pieces.pop(0), type=tuple[int, int])
            total, filtered = total + counts[0], filtered + counts[1]
    rows = await answers.rows(msgspec.Raw)
    return OtherRows(total or len(rows), filtered, rows)


async def elsewhere(
    call: Call, path: str, missing: Refused, method: str = "GET", headers: tuple[str, ...] = ()
) -> Answer:
    """The answer of the node that has a thing which is not here.

    Raises:
        Refused: none has it (`missing`), or that is not known; the one that has it refuses the call.
    """
    others = await other_nodes(call, path, method, headers)
    if others.found:
        is_read = method == "GET"
        return Value(msgspec.json.decode(others.found[0].pieces[0])) if is_read else Empty()
    others.check_all()
    raise missing
