"""The way of a message that is tried out: the bindings that lead to the queues at its end, and no others."""

from typing import Any

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.views import bindings, exchange_views


async def bound(
    node: ManagedNode, source: str, kind: str, name: str, key: str = "", **more: Any
) -> None:
    await node.ask(
        bindings.post_binding,
        source=source,
        kind=kind,
        destination=name,
        body={"routing_key": key, "arguments": more},
    )


async def tried(node: ManagedNode, exchange: str, key: str, headers: str = "") -> Any:
    query = f"routing_key={key}&headers={headers}"
    return await node.ask(exchange_views.try_route, name=exchange, query=query)


def ends(answer: Any) -> list[tuple[str, str]]:
    return [(each["source"], each["destination"]) for each in answer["bindings"]]


async def test_the_way_goes_along_bindings_that_match_also_of_exchanges_in_between(
    node: ManagedNode,
) -> None:
    for name in ("a", "b", "c"):
        await node.queue(name)
    await bound(node, "amq.topic", "q", "a", "x.*")
    await bound(node, "amq.topic", "q", "b", "y.*")
    await bound(node, "amq.topic", "e", "amq.fanout", "x.#")
    await bound(node, "amq.fanout", "q", "c")
    answer = await tried(node, "amq.topic", "x.1")
    assert answer["queues"] == ["a", "c"]
    assert ends(answer) == [
        ("amq.topic", "a"),
        ("amq.topic", "amq.fanout"),
        ("amq.fanout", "c"),
    ]
    assert ends(await tried(node, "amq.topic", "z")) == []
    assert ends(await tried(node, "amq.default", "a")) == [("", "a")]


async def test_headers_decide_and_an_alternate_gets_what_nothing_matches(node: ManagedNode) -> None:
    await node.queue("q")
    await bound(node, "amq.headers", "q", "q", n=1)
    assert ends(await tried(node, "amq.headers", "", '{"n":1}')) == [("amq.headers", "q")]
    assert ends(await tried(node, "amq.headers", "", '{"n":2}')) == []
    body = {"type": "direct", "arguments": {"alternate-exchange": "amq.fanout"}}
    await node.ask(exchange_views.put_exchange, name="first", body=body)
    await bound(node, "amq.fanout", "q", "q")
    assert ends(await tried(node, "first", "none")) == [("amq.fanout", "q")]


@pytest.mark.parametrize("type_", ["x-consistent-hash", "x-modulus-hash", "x-random"])
async def test_of_bindings_among_which_one_is_chosen_that_one_is_on_the_way(
    node: ManagedNode, type_: str
) -> None:
    await node.ask(exchange_views.put_exchange, name="e", body={"type": type_})
    for name in ("a", "b"):
        await node.queue(name)
        await bound(node, "e", "q", name, "1")
    answer = await tried(node, "e", "k")
    assert ends(answer) == [("e", name) for name in answer["queues"]]
    assert len(answer["queues"]) == 1


async def test_a_cycle_ends(node: ManagedNode) -> None:
    await bound(node, "amq.fanout", "e", "amq.topic")
    await bound(node, "amq.topic", "e", "amq.fanout", "#")
    assert len(ends(await tried(node, "amq.fanout", "k"))) == 2
