"""The node itself: alarms, its disk."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from unit.management.managed_node import ManagedNode, managed_node

from routelog.management.findings.findings import list_findings


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    async with managed_node(tmp_path, clocked=True) as clocked:
        yield clocked


async def only(node: ManagedNode) -> dict[str, Any]:
    (row,) = (await node.ask(list_findings))["findings"]
    return dict(row)


async def test_an_alarm_is_told_with_its_time(node: ManagedNode) -> None:
    node.alarms = ["low on disk"]
    node.log_lines = [
        {"event": "alarm.set", "number": 5_000},
        {"event": "alarm.set", "number": 7_000},
        {"message": "something else", "number": 9_000},
    ]
    assert (await only(node))["since"] == 7.0


async def test_the_disk_is_told_of_when_it_is_soon_full(node: ManagedNode) -> None:

    async def minute(fills: int) -> None:
        node.node.turns.clock.microseconds += 60_000_000
        node.disk_free -= fills
        await node.sampler.sample()

    node.disk_free = 10_000_000
    for _ in range(9):
        await minute(1_000)
    early = (await node.ask(list_findings))["findings"]
    assert early == [], "of days it is too early to speak"
    for _ in range(4):
        await minute(1_000)
    row = await only(node)
    assert (row["severity"], row["kind"]) == ("look", "disk")
    assert row["text"] == "The disk is full in 6 d 22 h at this rate: 9.99 MB are free"
    assert (await node.ask(list_findings))["verdict"] == "The disk fills"
    for _ in range(60):
        await minute(100_000)
    assert (await only(node))["severity"] == "wrong"
    await minute(-100_000_000)
    answer = await node.ask(list_findings)
    assert (answer["findings"], answer["disk_days"]) == ([], None)  # there is more than there was
