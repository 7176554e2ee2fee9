"""A node begins to lead, and stops: how long that takes, and what clients and operators are told meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import publish

# Of a processor, whatever else it does; opening queues is not in it, as that goes in turns
LEADING_MILLISECONDS_MAX = 50


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    # What metrics load would not have to be loaded by a leader
    with mirrored_brokers(
        tmp_path_factory.mktemp("leading"), ROUTELOG_PROMETHEUS="false"
    ) as running:
        yield running


def test_a_node_that_begins_to_lead_has_loaded_everything_before(cluster: MirroredBrokers) -> None:
    cluster.until_led(in_sync=3)
    leader = cluster.leader()
    publish(leader, "1")
    leader.kill()
    publish(cluster.leader(), "2")
    leader.start()
    cluster.until_led(in_sync=3)
    took = re.findall(r"takes clients, (\d+) ms of a processor", cluster.log_text())
    assert len(took) >= 2
    assert max(map(int, took)) <= LEADING_MILLISECONDS_MAX
