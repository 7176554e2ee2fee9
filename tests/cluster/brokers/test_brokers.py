"""Three whole brokers with an etcd each: clients of any of them go on when the leader is gone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pika
import pytest
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers, mirrored_brokers
from cluster.brokers.queue_load import QueueLoad
from cluster.brokers.verdict import Verdict
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS, wait_until

LEASE_SECONDS = 2  # the default


def client(broker: BrokerProcess) -> pika.BlockingConnection:
    """A client of a node, which has a leader that has `q`; while there is none it tries again."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.close()
            return connection
        except pika.exceptions.AMQPError:
            assert time.monotonic() < deadline, broker.log_text()
            time.sleep(0.05)


def publish(broker: BrokerProcess, *bodies: str) -> None:
    """Publish to `q`, each text confirmed."""
    connection = client(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "q", body, PERSISTENT)
    connection.close()


def drained(broker: BrokerProcess) -> list[str]:
    """What is in `q`, taken from it."""
    connection = client(broker)
    channel = connection.channel()
    bodies = []
    while True:
        method, _, body = channel.basic_get("q", auto_ack=True)
        if method is None:
            break
        bodies.append(body.decode())
    connection.close()
    return bodies


def api(broker: BrokerProcess, path: str) -> tuple[int, Any]:
    """Ask the HTTP API of a leader."""
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            url = json.loads((broker.data_dir / "management.json").read_text())["url"]
            with urlopen(Request(f"{url}/api/{path}", headers=login)) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)
        except (FileNotFoundError, URLError):  # or a process before that was killed has left it
            assert time.monotonic() < deadline, broker.log_text()
            time.sleep(0.05)


def running_nodes(broker: BrokerProcess) -> set[str]:
    """As the HTTP API lists them."""
    return {each["name"] for each in api(broker, "nodes")[1] if each["running"]}


def metrics(broker: BrokerProcess) -> dict[str, float]:
    """The samples of a node's own scrape, without those that have labels of their own."""
    lines = broker.log_text().splitlines()
    line = [each for each in lines if "listening for Prometheus on " in each][-1]
    with urlopen(f"http://{line.rpartition(' ')[2]}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    plain = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in plain}


def others(cluster: MirroredBrokers, broker: BrokerProcess) -> list[BrokerProcess]:
    return [each for each in cluster.brokers.values() if each is not broker]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    with mirrored_brokers(tmp_path_factory.mktemp("brokers")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: MirroredBrokers) -> MirroredBrokers:
    """Of all tests that leave one that is well: all nodes are in sync, and `q` is empty."""
    running.until_led(in_sync=3)
    leader = running.leader()
    publish(leader)  # nothing: there is the queue
    drained(leader)
    return running


def test_clients_of_all_nodes_go_on_when_the_leader_is_killed(cluster: MirroredBrokers) -> None:
    epoch = cluster.until_led()["epoch"]
    for name in NODES:
        publish(cluster.brokers[name], f"through {name}")
    leader = cluster.leader()
    follower, last = others(cluster, leader)
    stays = client(follower)
    leader.kill()
    publish(follower, "behind it")
    stays.channel().queue_declare("q", durable=True)
    stays.close()
    leader.start()
    assert not (leader.data_dir / "management.json").exists()  # a command would ask nobody there
    assert cluster.until_led(in_sync=3)["epoch"] > epoch
    publish(leader, "through who was killed")
    assert drained(last) == [
        *(f"through {name}" for name in NODES),
        "behind it",
        "through who was killed",
    ]


def test_each_node_tells_prometheus_of_itself(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    publish(leader, "one", "two")
    clients = [client(each) for each in cluster.brokers.values()]
    deadline = time.monotonic() + WAIT_SECONDS
    for broker in cluster.brokers.values():  # what a node knows is a third of a second old at most
        while metrics(broker)["routelog_replicas_in_sync"] < 3:
            assert time.monotonic() < deadline, broker.log_text()
    led, followers = metrics(leader), [metrics(each) for each in others(cluster, leader)]
    assert led["rabbitmq_queues"] == 1
    assert led["rabbitmq_queue_messages_ready"] == 2
    for told in (led, *followers):
        assert told["routelog_replicas"] == told["routelog_replicas_in_sync"] == 3
        assert told["routelog_journal_durable_position"] > 0
        assert told["rabbitmq_process_open_fds"] > 0
        assert told["routelog_takes_clients"] == told["rabbitmq_connections"] == 1
    for told in followers:
        assert told["rabbitmq_queues"] == told["rabbitmq_queue_messages_published_total"] == 0
    for each in clients:
        each.close()


async def test_under_load_nothing_is_lost_or_doubled_when_the_leader_is_killed(
    tmp_path: Path,
) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        load = QueueLoad({name: broker.url for name, broker in cluster.brokers.items()})
        load.start()
        try:
            await load.until_confirmed(0)
            leader = cluster.leader()
            killed = time.monotonic()
            leader.kill()
            await load.until_confirmed(killed)
            await asyncio.to_thread(leader.start)
            await load.stop_publishing()
            await load.drain(WAIT_SECONDS)
        finally:
            await load.stop()
        cluster.until_led(in_sync=3)
        told, code = await asyncio.to_thread(
            cluster.ask, "verify"
        )  # at one position: all come so far
        assert (told["equal"], told["complete"], code) == (True, True, 0), told
    directories = {name: broker.data_dir for name, broker in cluster.brokers.items()}
    assert Verdict.of(load, directories, [killed]).faults == []


def test_a_leader_that_is_told_to_stop_hands_over(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    publish(leader, "1")
    before = cluster.until_led()["leader"]
    silent, begin = client(leader), len(leader.log_text())
    assert leader.terminate() == 0
    after = cluster.until_led(in_sync=2, without=before)["leader"]
    ends = leader.log_text()[begin:]
    assert 0 < ends.find(f"{after} leads") < ends.find("1 connections did not answer"), ends
    with suppress(pika.exceptions.AMQPError):
        silent.close()
    told, _ = cluster.ask("status")
    assert told["summary"] == "2 of 3 nodes alive: confirms go on, one more failure stops them"
    # What the leader knows of the others is a third of a second old at most.
    wait_until(lambda: running_nodes(cluster.leader()) == {*told["shards"][0]["in_sync"]})
    status, nodes = api(cluster.leader(), "nodes")
    assert {each["name"] for each in nodes} == {f"{name}@test" for name in NODES}
    assert api(cluster.leader(), "cluster-name") == (200, {"name": "routelog"})
    status, critical = api(cluster.leader(), "health/checks/node-is-quorum-critical")
    assert (status, [each["name"] for each in critical["queues"]]) == (503, ["q"])
    status, state = api(cluster.leader(), "cluster")
    assert (status, state["leader"], state["critical"]) == (200, after, True)
    assert any(f"{after} leads" in each["what"] for each in state["history"])
    assert state["history"][0]["epoch"] == state["epoch"] == told["shards"][0]["epoch"]
    follower, _ = others(cluster, leader)
    publish(follower, "2")
    leader.start()
    cluster.until_led(in_sync=3)
    assert drained(leader) == ["1", "2"]


@pytest.mark.long
def test_a_leader_that_was_stopped_for_longer_than_its_lease_starts_again(
    cluster: MirroredBrokers,
) -> None:
    leader = cluster.leader()
    begin, etcd = len(leader.log_text()), leader.children
    publish(leader, "1")
    leader.signal(signal.SIGSTOP)
    publish(others(cluster, leader)[0], "2")
    leader.signal(signal.SIGCONT)
    cluster.until_led(in_sync=3)
    assert drained(leader) == ["1", "2"]
    assert "to start again" in leader.log_text()[begin:]
    assert leader.children == etcd, "no vote was missing meanwhile"


@pytest.mark.long
def test_without_etcd_the_leader_goes_on(cluster: MirroredBrokers) -> None:
    leader, epoch = cluster.leader(), cluster.until_led()["epoch"]
    bodies: list[str] = []
    stopped = [child for each in cluster.brokers.values() for child in each.children]
    for child in stopped:
        os.kill(child, signal.SIGSTOP)
    try:
        behind_lease = time.monotonic() + LEASE_SECONDS + 1
        while time.monotonic() < behind_lease:
            bodies.append(str(len(bodies)))
            publish(leader, bodies[-1])
    finally:
        for child in stopped:
            os.kill(child, signal.SIGCONT)
    assert cluster.until_led(in_sync=3)["epoch"] == epoch
    assert drained(leader) == bodies


@pytest.mark.long
def test_without_enough_nodes_publishes_are_refused_in_time_and_consumers_go_on(
    tmp_path: Path,
) -> None:
    with mirrored_brokers(tmp_path, ROUTELOG_CLUSTER_CONFIRM_SECONDS="4") as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        publish(leader, "1", "2")
        channel = client(leader).channel()
        channel.confirm_delivery()
        for each in others(cluster, leader):
            each.signal(signal.SIGSTOP)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", b"3", PERSISTENT)
        assert channel.basic_get("q", auto_ack=True)[2] == b"1"
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            channel.queue_declare("other", durable=True)
        assert closed.value.reply_code == 541
        for each in others(cluster, leader):
            each.signal(signal.SIGCONT)
        cluster.until_led(in_sync=3)
        publish(leader, "4")
        assert drained(leader) == ["2", "3", "4"]  # 3 was committed after all


class Load:
    """Confirmed publishes to `q` without a pause, through a node that runs.

    Attributes:
        confirmed, doubtful: the texts; of the doubtful nobody knows.
    """

    def __init__(self, cluster: MirroredBrokers) -> None:
        self.confirmed: list[str] = []
        self.doubtful: list[str] = []
        self._cluster = cluster
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        at = 0
        while not self._stopped.is_set():
            at += 1
            broker = list(self._cluster.brokers.values())[at % len(NODES)]
            try:
                connection = pika.BlockingConnection(pika.URLParameters(broker.url))
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("q", durable=True)
                while not self._stopped.is_set():
                    text = str(len(self.confirmed) + len(self.doubtful))
                    self.doubtful.append(text)
                    with suppress(pika.exceptions.NackError):  # another node leads
                        channel.basic_publish("", "q", text, PERSISTENT)
                        self.confirmed.append(self.doubtful.pop())
                connection.close()
            except pika.exceptions.AMQPError:
                time.sleep(0.05)


@pytest.mark.long
def test_nodes_are_drained_and_restarted_in_turn_and_no_confirm_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        load = Load(cluster)
        for name in NODES:
            node = f"{name}@test"
            confirmed = len(load.confirmed)
            told, code = cluster.ask("drain", node)
            assert (told["done"], code) == (True, 0), (told, cluster.log_text())
            (shard,) = told["shards"]
            assert node not in {shard["leader"], *shard["in_sync"]}
            assert cluster.brokers[name].terminate() == 0
            cluster.brokers[name].start()
            cluster.until_led(in_sync=3)
            assert len(load.confirmed) > confirmed
        told, code = cluster.ask("transfer", "--to", "a@test")
        assert (told["shards"][0]["leader"], code) == ("a@test", 0), (told, cluster.log_text())
        cluster.until_led(in_sync=3)
        load.stop()
        found = Counter(drained(cluster.brokers["b"]))
        assert [text for text in load.confirmed if found[text] != 1] == []
        assert found.keys() <= {*load.confirmed, *load.doubtful}
        assert "the operator's command: drain" in cluster.log_text()


@pytest.mark.long
def test_the_operator_says_whose_data_count(tmp_path: Path) -> None:
    for name in ("a", "b"):
        alone = BrokerProcess(tmp_path / name, {"ROUTELOG_NODE_NAME": f"{name}@test"})
        alone.start()
        publish(alone, f"of {name}")
        alone.terminate()
    with mirrored_brokers(tmp_path) as cluster:
        deadline = time.monotonic() + WAIT_SECONDS
        while "cluster init --from" not in cluster.log_text():
            assert time.monotonic() < deadline, cluster.log_text()
            time.sleep(0.05)
        told, code = cluster.ask("init", "--from", "b@test")
        assert (told["done"], code) == (True, 0), (told, cluster.log_text())
        assert cluster.until_led(in_sync=3)["leader"] == "b@test"
        assert drained(cluster.brokers["a"]) == ["of b"]
        assert cluster.ask("recover", "a@test", "--accept-loss")[1] == 1, "there is a leader"


@pytest.mark.long
def test_nodes_that_lose_their_disks_one_after_another_get_all_again(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        for number, name in enumerate(NODES):
            publish(cluster.brokers[NODES[number - 1]], str(number))
            cluster.brokers[name].kill()
            shutil.rmtree(tmp_path / name)
            cluster.brokers[name].start()
            cluster.until_led(in_sync=3)
        assert drained(cluster.leader()) == ["0", "1", "2"]


@pytest.mark.long
def test_a_node_without_its_disk_takes_a_copy_of_what_the_journal_has_no_more(
    tmp_path: Path,
) -> None:
    small = {"ROUTELOG_JOURNAL_FILE_BYTES": "1048576", "ROUTELOG_JOURNAL_FILES_MAX": "2"}
    with mirrored_brokers(tmp_path, **small) as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        (name, wiped), (_, last) = (
            each for each in cluster.brokers.items() if each[1] is not leader
        )
        wiped.kill()
        shutil.rmtree(tmp_path / name)
        bodies = [f"{number} {'x' * 100_000}" for number in range(100)]
        publish(leader, *bodies)
        wiped.start()
        cluster.until_led(in_sync=3)
        assert "checkpoint is whole" in wiped.log_text()
        assert not (tmp_path / name / "copied").exists()
        last.kill()
        leader.kill()
        leader.start()  # one of the two leads
        assert drained(wiped) == bodies


@pytest.mark.long
def test_a_node_that_is_told_to_stop_while_it_is_about_to_start_again_stops(
    cluster: MirroredBrokers,
) -> None:
    leader = cluster.leader()
    begin = len(leader.log_text())
    leader.signal(signal.SIGSTOP)
    publish(others(cluster, leader)[0], "1")
    leader.signal(signal.SIGCONT)
    deadline = time.monotonic() + WAIT_SECONDS
    while "to start again" not in leader.log_text()[begin:]:
        assert time.monotonic() < deadline, leader.log_text()
        time.sleep(0.001)
    assert leader.terminate() == 0
    leader.start()


@pytest.mark.long
def test_a_node_on_its_own_grows_to_three_in_place(tmp_path: Path) -> None:
    small = {"ROUTELOG_JOURNAL_FILE_BYTES": "1048576"}
    alone = BrokerProcess(tmp_path / "a", {"ROUTELOG_NODE_NAME": "a@test"} | small)
    alone.start()
    bodies = [f"{number}:" + "x" * 100_000 for number in range(40)]
    publish(alone, *bodies)  # more than its journal keeps
    alone.restart()
    alone.terminate()
    with mirrored_brokers(tmp_path, **small) as cluster:
        assert cluster.until_led(in_sync=3)["leader"] == "a@test"
        assert "takes the place" not in (log := cluster.brokers["b"].log_text()), log
        assert "checkpoint is whole" in log
        cluster.leader().kill()
        assert drained(cluster.brokers["b"]) == bodies


@pytest.mark.long
def test_an_operator_accepts_a_loss_when_nobody_with_everything_comes_back(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        a, b, c = (cluster.brokers[name] for name in NODES)
        cluster.until_led(in_sync=3)
        publish(a, "kept")
        assert cluster.ask("drain", "a@test")[1] == 0
        a.terminate()
        publish(b, "lost")
        b.kill()
        c.kill()
        for part in c.data_dir.iterdir():
            if part.name != "etcd":
                shutil.rmtree(part) if part.is_dir() else part.unlink()
        for each in (a, c):
            each.start()
        deadline = time.monotonic() + WAIT_SECONDS
        while "only b@test, c@test had everything" not in cluster.status().get("summary", ""):
            assert time.monotonic() < deadline, (cluster.status(), cluster.log_text())
            time.sleep(0.1)
        told, code = cluster.ask("recover", "--accept-loss", "a@test")
        assert (told["shards"][0]["leader"], code) == ("a@test", 0), (told, cluster.log_text())
        publish(c, "behind it")
        b.start()
        assert cluster.until_led(in_sync=3)["unclean"] > 0
        assert drained(b) == ["kept", "behind it"]
        assert list((tmp_path / "b" / "aside").iterdir())
