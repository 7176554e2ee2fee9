"""Metrics of a node of several processes: one scrape has the clients of all, each under its process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from unit.management.managed_node import Connection, ManagedNode, managed_node

from routelog.broker import ProcessState
from routelog.management.metrics.client_metrics import Wanted
from routelog.management.metrics.process_metrics import all_clients_text
from routelog.management.server.api_calls import ApiCalls
from routelog.management.server.node_answers import NodeAnswers

STATES = [ProcessState(number, number, is_ready=True, connections=1) for number in (1, 2)]


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    """Process 2."""
    async with managed_node(tmp_path / "front") as front:
        yield front


@pytest.fixture
def first(node: ManagedNode, front: ManagedNode) -> ManagedNode:
    """Process 1."""
    calls = ApiCalls(front.broker, front.tokens, front.sampler)
    node.others["routelog@here/2"] = NodeAnswers(calls, front.users.permissions).pieces
    node.processes = STATES
    return node


async def scraped(first: ManagedNode, wanted: Wanted) -> list[str]:
    """The lines about clients, without what they mean."""
    asked: Any = SimpleNamespace(ask_nodes=first.ask_nodes, processes=lambda: first.processes)
    texts = all_clients_text(cast(Any, asked), first.broker.watched, wanted)
    text = "".join([text async for text in texts])
    return [line for line in text.split("\n") if not line.startswith("# HELP")]


def of(lines: list[str], metric: str) -> list[str]:
    """The samples of a metric, which stand together behind its type."""
    (at,) = (at for at, line in enumerate(lines) if line.startswith(f"# TYPE {metric} "))
    found = []
    for line in lines[at + 1 :]:
        if line.startswith("#") or not line:
            break
        found.append(line)
    return found


async def test_sums_are_those_of_each_process(first: ManagedNode, front: ManagedNode) -> None:
    for node, count in ((first, 3), (front, 5)):
        node.connections.open = [Connection("a", "u", node.vhost)]
        node.connections.open[0].counters.published(count)
        node.confirms.observe(0.5)
    lines = await scraped(first, Wanted(in_sum=True))
    name = "rabbitmq_channel_messages_published_total"
    assert of(lines, name) == [f'{name}{{process="1"}} 3', f'{name}{{process="2"}} 5']
    name = "rabbitmq_global_messages_received_total"
    amqp = 'protocol="amqp091"'
    assert of(lines, name) == [f'{name}{{process="{n}",{amqp}}} {n * 2 + 1}' for n in (1, 2)]
    name = "routelog_publish_confirm_seconds"
    assert f'{name}_bucket{{process="2",le="1"}} 1' in of(lines, name)
    assert len([line for line in lines if line.startswith("# TYPE rabbitmq_connections ")]) == 1


async def test_each_object_stands_with_those_of_other_processes(
    first: ManagedNode, front: ManagedNode
) -> None:
    strange = "1 -> 2 {\u2028x}"
    first.connections.open = [Connection("a", "u", first.vhost)]
    front.connections.open = [Connection(strange, "u", front.vhost)]
    name = "rabbitmq_connection_channels"
    assert of(await scraped(first, Wanted()), name) == [
        f'{name}{{process="1",connection="a"}} 1',
        f'{name}{{process="2",connection="{strange}"}} 1',
    ]
    name = "rabbitmq_detailed_connection_channels"
    chosen = await scraped(first, Wanted(groups=["connection_metrics"], vhosts=["/"]))
    assert len(of(chosen, name)) == 2
    assert not any("churn" in line or "opened" in line for line in chosen)
    elsewhere = await scraped(first, Wanted(groups=["connection_metrics"], vhosts=["other"]))
    assert of(elsewhere, name) == []


async def test_a_process_that_is_silent_is_left_out(first: ManagedNode) -> None:
    first.silent = ["routelog@here/3"]
    lines = of(await scraped(first, Wanted(in_sum=True)), "rabbitmq_connections")
    assert lines == [f'rabbitmq_connections{{process="{number}"}} 0' for number in (1, 2)]


async def test_a_node_of_one_process_asks_nobody_and_names_none(first: ManagedNode) -> None:
    first.processes = []
    lines = await scraped(first, Wanted(in_sum=True))
    assert of(lines, "rabbitmq_connections") == ["rabbitmq_connections 0"]
    assert not any("process=" in line for line in lines)
