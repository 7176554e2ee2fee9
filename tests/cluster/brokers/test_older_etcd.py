"""An etcd that is empty, older or another one than the nodes have known is refused: no confirm is lost.

What a node and `cluster status` print then brings the cluster back, with everything.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.brokers.given_etcd import GivenEtcd
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import drained, others, publish
from support.broker_process import BrokerProcess
from support.sampling import sampled
from support.waiting import WAIT_SECONDS, wait_until

COMMAND = re.compile(r"`routelog cluster (init --from \S+|repair \S+)`")
BEFORE, AFTER = [f"before {each}" for each in range(20)], [f"after {each}" for each in range(60)]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[GivenEtcd]:
    given = GivenEtcd(tmp_path / "etcd")
    try:
        given.start()
        yield given
    finally:
        given.stop()


@pytest.fixture
def cluster(etcd: GivenEtcd, tmp_path: Path) -> Iterator[MirroredBrokers]:
    with mirrored_brokers(tmp_path, ROUTELOG_CLUSTER_ETCD=etcd.url) as brokers:
        brokers.until_led(in_sync=3)
        yield brokers


def without_one(
    cluster: MirroredBrokers, *, loses_leader: bool
) -> tuple[BrokerProcess, list[BrokerProcess]]:
    """Publish while one of three is down, perhaps under another leader; returns it, and those that have all."""
    leader = cluster.leader()
    stale, other = others(cluster, leader)
    name = next(each for each, broker in cluster.brokers.items() if broker is stale)
    stale.kill()
    cluster.until_led(in_sync=2, without=f"{name}@test")
    publish(leader, *AFTER[:30])
    if loses_leader:
        leader.kill()
        leader.start()
        cluster.until_led(in_sync=2)
    publish(other, *AFTER[30:])
    # A member may be counted by a record that it reads a moment later.
    wait_until(lambda: promised_revision(leader) == promised_revision(other))
    return stale, [leader, other]


def promised_revision(broker: BrokerProcess) -> int:
    """Of the newest record that a node has taken."""
    return int(json.loads((broker.data_dir / "promise").read_text())["revision"])


def told_command(cluster: MirroredBrokers, brokers: list[BrokerProcess]) -> list[str]:
    """What these nodes print, all the same as `cluster status`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        told = cluster.status()
        found = COMMAND.findall(told.get("summary", ""))
        printed = [COMMAND.findall(broker.log_text())[-1:] for broker in brokers]
        if found and all(each == found for each in printed):
            assert not told["is_well"]
            return str(found[0]).split()
        assert time.monotonic() < deadline, (told, cluster.log_text())
        time.sleep(0.1)


def restored(cluster: MirroredBrokers, command: list[str]) -> list[str]:
    """What is there behind the command."""
    told, code = cluster.ask(*command)
    if better := COMMAND.findall(told.get("reason", "")):  # a leader served again just then
        told, code = cluster.ask(*better[0].split())
    assert (told.get("done"), code) == (True, 0), (told, cluster.log_text())
    assert cluster.until_led(in_sync=3)["unclean"] == 0
    told, code = cluster.ask("status")
    assert code == 0, told
    publish(cluster.brokers["a"], "at last")
    return drained(cluster.brokers["b"])


@pytest.mark.long
@pytest.mark.parametrize(
    "loses_leader", sampled([False, True], 2), ids=["one leader", "another leader"]
)
@pytest.mark.parametrize("all_stop", sampled([False, True], 2), ids=["nodes run", "nodes start"])
def test_nobody_follows_the_record_of_an_etcd_that_was_set_back(
    cluster: MirroredBrokers,
    etcd: GivenEtcd,
    tmp_path: Path,
    loses_leader: bool,
    all_stop: bool,
) -> None:
    publish(cluster.brokers["a"], *BEFORE)
    etcd.keep(tmp_path / "older")
    stale, whole = without_one(cluster, loses_leader=loses_leader)
    etcd.stop()
    if all_stop:
        for broker in whole:
            broker.kill()
    etcd.restore(tmp_path / "older")
    etcd.start()
    stale.start()
    if all_stop:
        for broker in whole:
            broker.start()
    assert restored(cluster, told_command(cluster, whole)) == [*BEFORE, *AFTER, "at last"]


@pytest.mark.long
def test_nobody_begins_the_cluster_again_in_an_etcd_that_was_emptied(
    cluster: MirroredBrokers, etcd: GivenEtcd
) -> None:
    publish(cluster.brokers["a"], *BEFORE)
    stale, whole = without_one(cluster, loses_leader=False)
    etcd.empty()
    stale.start()
    command = told_command(cluster, [stale, *whole])
    assert restored(cluster, command) == [*BEFORE, *AFTER, "at last"]


@pytest.mark.long
def test_nobody_follows_the_record_of_another_cluster(
    cluster: MirroredBrokers, etcd: GivenEtcd
) -> None:
    publish(cluster.brokers["a"], *BEFORE)
    stale, whole = without_one(cluster, loses_leader=False)
    record = etcd.record()
    names = {"leader": "", "claim": 0, "epoch": record["epoch"] + 100}
    etcd.set_record(record | names | {"cluster": record["cluster"] + 1})
    stale.start()
    command = told_command(cluster, [stale, *whole])
    assert restored(cluster, command) == [*BEFORE, *AFTER, "at last"]


@pytest.mark.long
def test_a_node_that_has_known_more_than_those_that_go_on_gives_it_up_by_command(
    cluster: MirroredBrokers,
) -> None:
    publish(cluster.brokers["a"], *BEFORE)
    stale, _ = without_one(cluster, loses_leader=False)
    file = stale.data_dir / "promise"  # of a leader that nobody has followed since
    promise = json.loads(file.read_text())
    file.write_text(json.dumps(promise | {"epoch": promise["epoch"] + 7, "claim": 1}))
    stale.start()
    command = told_command(cluster, [stale])
    assert command[0] == "repair"
    assert restored(cluster, command) == [*BEFORE, *AFTER, "at last"]


@pytest.mark.long
def test_a_managed_etcd_whose_directories_are_gone_is_begun_again(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster.brokers["a"], *BEFORE)
        stale, whole = without_one(cluster, loses_leader=False)
        for broker in whole:
            broker.kill()
        for broker in cluster.brokers.values():
            shutil.rmtree(broker.data_dir / "etcd")
        cluster.start()
        command = told_command(cluster, [stale, *whole])
        assert restored(cluster, command) == [*BEFORE, *AFTER, "at last"]
