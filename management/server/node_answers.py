"""What this node answers the one that leads: calls of the API, about its own clients."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Listing, Value
from routelog.management.calls.caller import Caller
from routelog.management.calls.failures import Refused
from routelog.management.calls.listing import page_of
from routelog.management.calls.other_nodes import NodeCall, NodeRefusal
from routelog.management.server.api_calls import ApiCalls
from routelog.vhosts import ANSWER_PIECE_BYTES, AnswerFailed, PermissionBook

_DONE = b"true"  # nothing else is to be said


class NodeAnswers:
    """Answers calls of another node."""

    def __init__(self, calls: ApiCalls, permissions: PermissionBook) -> None:
        self._calls = calls
        self._permissions = permissions

    async def pieces(self, question: bytes) -> AsyncGenerator[bytes, None]:
        """See `AnswerPieces`, and `NodeCall` for what they say."""
        asked = msgspec.msgpack.decode(question, type=NodeCall)
        caller = Caller(asked.name, asked.tags, self._permissions, asked.is_local)
        try:
            answer = await self._calls.ask(
                caller,
                asked.address,
                asked.method,
                asked.path,
                asked.parts,
                asked.query,
                b"",
                asked.headers,
            )
        except Refused as error:
            refusal = NodeRefusal(error.status, error.error, error.reason)
            raise AnswerFailed(msgspec.msgpack.encode(refusal)) from None
        if isinstance(answer, Listing):
            items: Iterable[Any] = answer.items
            if asked.wanted is not None:
                head, items = await page_of(answer, asked.wanted, 1)
                yield msgspec.json.encode((head["total_count"], head["filtered_count"]))
            async for piece in _rows(answer, items):
                yield piece
        else:
            yield msgspec.json.encode(answer.value) if isinstance(answer, Value) else _DONE


async def _rows(listing: Listing, items: Iterable[Any]) -> AsyncGenerator[bytes, None]:
    rows = bytearray()
    async for item in in_turns(items, Lane.OPERATORS):
        row = listing.describe(item)
        if row is not None:
            rows += b"," if rows else b"["
            rows += msgspec.json.encode(row)
        if len(rows) > ANSWER_PIECE_BYTES:
            yield bytes(rows + b"]")
            rows.clear()
    yield bytes((rows or b"[") + b"]")
