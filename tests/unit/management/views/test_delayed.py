"""Delayed messages over HTTP."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import delayed
from routelog.management.views import exchange_views as exchanges
from routelog.vhosts import AccessRefused

BODY = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}


@pytest.fixture
async def holding(node: ManagedNode) -> ManagedNode:
    """Exchange "mine" may hold messages, and holds none."""
    await node.ask(exchanges.put_exchange, name="mine", body=BODY)
    return node


async def test_an_exchange_that_holds_nothing_has_an_empty_page(holding: ManagedNode) -> None:
    assert await holding.ask(delayed.list_delayed, name="mine") == {
        "messages": 0,
        "items": [],
        "next": None,
    }
    assert await holding.ask(delayed.cancel_all, name="mine") == {"cancelled": 0}
    with pytest.raises(Refused, match=r"^no "):
        await holding.ask(delayed.cancel_one, name="mine", id="1-0-1")


@pytest.mark.parametrize("count", ["0", "501", "many", "", "-1", "1" * 20])
async def test_a_page_has_a_size(holding: ManagedNode, count: str) -> None:
    with pytest.raises(Refused, match="count is not between 1 and 500"):
        await holding.ask(delayed.list_delayed, name="mine", query=f"count={count}")


@pytest.mark.parametrize("entry", ["", "1", "1-2", "1-2-3-4", "a-0-1", f"{2**63}-0-1", "1-256-1"])
async def test_an_id_is_three_numbers(holding: ManagedNode, entry: str) -> None:
    with pytest.raises(Refused, match="three numbers"):
        await holding.ask(delayed.cancel_one, name="mine", id=entry)
    with pytest.raises(Refused, match="three numbers"):
        await holding.ask(delayed.list_delayed, name="mine", query=f"from={entry}")


async def test_only_exchanges_that_hold_messages_are_asked(holding: ManagedNode) -> None:
    for handler in (delayed.list_delayed, delayed.cancel_all, delayed.cancel_one):
        for name in ("amq.direct", "nothing"):
            with pytest.raises(Refused, match=r"^no "):
                await holding.ask(handler, name=name, id="1-0-1")
    user = await holding.user("u")
    await holding.ask(exchanges.put_exchange, name="other", body=BODY)
    for handler in (delayed.list_delayed, delayed.cancel_all, delayed.cancel_one):
        with pytest.raises(AccessRefused):
            await holding.ask(handler, user, name="other", id="1-0-1")
