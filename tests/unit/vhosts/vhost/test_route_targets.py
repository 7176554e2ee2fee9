"""The queues of a route, looked for at once or gradually."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, declare_queue, running_node

from routelog.vhosts import QueueProperties
from routelog.vhosts.vhost import route_targets
from routelog.vhosts.vhost.route_targets import AT_ONCE_MAX

ROUTE = tuple(f"q{number:04}" for number in range(AT_ONCE_MAX + 10))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        for name in ROUTE:
            running.vhost.declare_queue(QueueProperties(name), object())
        yield running


def test_what_is_found_gradually_is_remembered(node: Node) -> None:
    targets = node.vhost.targets
    found = list(targets.gradually(ROUTE))
    assert [each.name for each in found] == list(ROUTE)
    assert targets.known()[ROUTE] == tuple(found)
    assert targets.gradually(ROUTE) is targets.of(ROUTE)


def test_what_comes_and_goes_meanwhile_is_left_out_and_nothing_is_remembered(node: Node) -> None:
    targets = node.vhost.targets
    finding = targets.gradually(ROUTE)
    for name in ROUTE[-3:]:
        node.vhost.delete_queue(node.vhost.queues[name])
    again, _ = declare_queue(node.vhost, QueueProperties(ROUTE[-2]), object())
    assert [each.name for each in finding] == list(ROUTE[:-3])
    assert ROUTE not in targets.known()
    assert again in list(targets.gradually((*ROUTE[:-3], ROUTE[-2])))


def test_few_are_looked_for_at_once(node: Node) -> None:
    targets = node.vhost.targets
    assert targets.gradually(ROUTE[:2]) == targets.of(ROUTE[:2])
    assert list(targets.gradually(())) == []


def test_what_is_known_has_a_limit(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_targets, "KNOWN_WEIGHT_MAX", 5)
    targets = node.vhost.targets
    ways = [ROUTE[:3], ROUTE[3:4], ROUTE[4:5], ROUTE[5:12]]
    known = []
    for route in ways:
        assert [each.name for each in targets.of(route)] == list(route)
        known.append([len(each) for each in targets.known()])
    assert known == [[3], [1], [1, 1], [7]]
