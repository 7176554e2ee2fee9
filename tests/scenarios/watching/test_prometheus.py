"""Scrapes of a broker process, read by Prometheus' own parser."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from pika import BasicProperties
from scenarios.clients.bystander import Bystander
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

PARSER: Any = importlib.import_module("prometheus_client.parser")
MANY = 20_000

# Every metric that RabbitMQ's published board "RabbitMQ-Overview" asks for: in its editions for 3.8 to 3.10;
# behind these, in those for 4.
BOARD = """
    rabbitmq_build_info rabbitmq_channel_consumers rabbitmq_channel_get_ack_total
    rabbitmq_channel_get_empty_total rabbitmq_channel_get_total rabbitmq_channel_messages_acked_total
    rabbitmq_channel_messages_confirmed_total rabbitmq_channel_messages_delivered_ack_total
    rabbitmq_channel_messages_delivered_total rabbitmq_channel_messages_published_total
    rabbitmq_channel_messages_redelivered_total rabbitmq_channel_messages_unconfirmed
    rabbitmq_channel_messages_unroutable_dropped_total
    rabbitmq_channel_messages_unroutable_returned_total rabbitmq_channels
    rabbitmq_channels_closed_total rabbitmq_channels_opened_total rabbitmq_connections
    rabbitmq_connections_closed_total rabbitmq_connections_opened_total
    rabbitmq_disk_space_available_bytes rabbitmq_identity_info rabbitmq_process_max_fds
    rabbitmq_process_max_tcp_sockets rabbitmq_process_open_fds rabbitmq_process_open_tcp_sockets
    rabbitmq_process_resident_memory_bytes rabbitmq_queue_messages_published_total
    rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked rabbitmq_queues
    rabbitmq_queues_created_total rabbitmq_queues_declared_total rabbitmq_queues_deleted_total
    rabbitmq_resident_memory_limit_bytes

    rabbitmq_erlang_uptime_seconds rabbitmq_global_consumers
    rabbitmq_global_messages_acknowledged_total rabbitmq_global_messages_confirmed_total
    rabbitmq_global_messages_delivered_consume_auto_ack_total
    rabbitmq_global_messages_delivered_consume_manual_ack_total
    rabbitmq_global_messages_delivered_get_auto_ack_total
    rabbitmq_global_messages_delivered_get_manual_ack_total
    rabbitmq_global_messages_get_empty_total rabbitmq_global_messages_received_confirm_total
    rabbitmq_global_messages_received_total rabbitmq_global_messages_redelivered_total
    rabbitmq_global_messages_routed_total rabbitmq_global_messages_unroutable_dropped_total
    rabbitmq_global_messages_unroutable_returned_total rabbitmq_global_publishers
    rabbitmq_message_size_bytes_bucket rabbitmq_message_size_bytes_count
    rabbitmq_message_size_bytes_sum
"""
# The last three: a histogram of sizes would look at each message.
EXCEPTIONS = {f"rabbitmq_message_size_bytes_{end}" for end in ("bucket", "count", "sum")}


class Prometheus:
    """Scrapes of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        listeners = ManagementDoor(broker).get("overview")["listeners"]
        (self.port,) = (each["port"] for each in listeners if each["protocol"] == "http/prometheus")

    def raw(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        """Status, headers and body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, named, answer.read().decode()
        finally:
            connection.close()

    def scrape(
        self, path: str = "/metrics"
    ) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The value of each sample, by name and labels."""
        status, headers, text = self.raw(path)
        assert status == 200
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        check_form(text)
        found = {}
        for family in PARSER.text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in found, f"{key} is there twice"
                found[key] = sample.value
        return found

    def value(self, name: str, path: str = "/metrics", **labels: str) -> float:
        """The value of one sample."""
        return self.scrape(path)[name, tuple(sorted(labels.items()))]


def check_form(text: str) -> None:
    """What `promtool check metrics` asks for: help and type once, before all samples of a metric."""
    assert text.endswith("\n")
    seen: set[str] = set()
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            assert meaning
            assert name not in seen, f"{name} is told twice"
            seen.add(name)
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert typed == name
            assert kind in ("counter", "gauge", "histogram")
            assert (kind == "counter") == name.endswith("_total")
        elif not line.startswith("# no such family"):
            sample = line.partition("{")[0].partition(" ")[0]
            assert sample in {name, *(f"{name}_{end}" for end in ("bucket", "sum", "count"))}


@pytest.fixture(scope="module")
def prometheus(world: BrokerProcess) -> Prometheus:
    return Prometheus(world)


@pytest.fixture
def clients(world: BrokerProcess) -> Iterator[Clients]:
    opened = Clients(world.url)
    yield opened
    opened.close()


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_the_board_of_rabbitmq_finds_all_that_it_asks_for(
    prometheus: Prometheus, clients: Clients, path: str
) -> None:
    clients.channel().queue_declare("board", exclusive=True)
    served = {name for name, _ in prometheus.scrape(path)}
    assert {name for name in BOARD.split() if name not in served} == EXCEPTIONS


def test_a_scrape_tells_what_clients_did(prometheus: Prometheus, clients: Clients) -> None:
    before = prometheus.scrape()
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True)
    for _ in range(5):
        channel.basic_publish("", "work", b"x", BasicProperties(delivery_mode=2))
    channel.basic_publish("", "nowhere", b"x")
    channel.basic_get("work")
    each = prometheus.scrape("/metrics/per-object")
    of_queue = (("queue", "work"), ("vhost", "/"))
    assert each["rabbitmq_queue_messages_ready", of_queue] == 4
    assert each["rabbitmq_queue_messages_unacked", of_queue] == 1
    oldest = each["routelog_queue_oldest_message_timestamp_seconds", of_queue]
    assert time.time() - 60 < oldest <= time.time()
    told = prometheus.scrape()
    assert told["rabbitmq_connections", ()] == 1
    assert told["rabbitmq_channel_messages_unacked", ()] >= 1
    counted = {
        "channel_messages_published_total": 6,
        "channel_messages_confirmed_total": 6,
        "channel_messages_unroutable_dropped_total": 1,
        "channel_get_ack_total": 1,
        "queue_messages_published_total": 5,
        "queues_created_total": 1,
        "channels_opened_total": 1,
        "connections_opened_total": 1,
    }
    for name, count in counted.items():
        assert told[f"rabbitmq_{name}", ()] - before[f"rabbitmq_{name}", ()] == count, name
    amqp = (("protocol", "amqp091"),)
    for name, count in {"received": 6, "received_confirm": 6, "routed": 5, "confirmed": 6}.items():
        key = f"rabbitmq_global_messages_{name}_total", amqp
        assert told[key] - before[key] == count, name
    assert told["rabbitmq_global_publishers", amqp] == 1
    assert each["rabbitmq_queue_messages_published_total", of_queue] == 5
    assert told["rabbitmq_channel_messages_unconfirmed", ()] == 0
    assert told["routelog_publish_confirm_seconds_count", ()] >= 5
    assert told["routelog_publish_confirm_seconds_sum", ()] > 0
    assert told["routelog_journal_sync_seconds_count", ()] >= 5


def test_the_first_delivery_of_a_consumer_is_measured(
    prometheus: Prometheus, clients: Clients
) -> None:
    before = prometheus.scrape()
    channel = clients.channel()
    channel.queue_declare("measured", exclusive=True)
    channel.basic_publish("", "measured", b"x" * 2_000)
    next(channel.consume("measured", auto_ack=True))
    told = prometheus.scrape()
    for name, came in {
        "message_delivery_seconds_count": 1,
        "message_size_bytes_count": 1,
        "message_size_bytes_sum": 2_000,
    }.items():
        assert told[f"routelog_{name}", ()] - before[f"routelog_{name}", ()] == came, name
    bucket = "routelog_message_size_bytes_bucket"
    for bound, came in {"1000": 0, "10000": 1, "1e+06": 1, "+Inf": 1}.items():
        assert told[bucket, (("le", bound),)] - before[bucket, (("le", bound),)] == came, bound


def test_names_that_clients_choose_are_told_as_they_are(
    prometheus: Prometheus, clients: Clients
) -> None:
    name = 'a "b" \\c {d} é'
    clients.channel().queue_declare(name, exclusive=True)
    path = "/metrics/detailed?family=queue_coarse_metrics&vhost=%2F"
    assert prometheus.value("rabbitmq_detailed_queue_messages", path, queue=name, vhost="/") == 0


def test_a_family_that_is_not_there_is_left_out(prometheus: Prometheus) -> None:
    status, _, text = prometheus.raw("/metrics/detailed?family=nonsense&family=node_metrics")
    assert status == 200
    assert "# no such family: 'nonsense'\n" in text
    assert "rabbitmq_detailed_process_max_fds" in text


def test_other_paths_and_methods_are_refused(prometheus: Prometheus) -> None:
    assert prometheus.raw("/metrics/nonsense")[0] == 404
    assert prometheus.raw("/api/overview")[0] == 404
    assert prometheus.raw("/metrics", "POST")[0] == 405
    assert prometheus.raw("/metrics", "HEAD")[::2] == (200, "")
    assert prometheus.raw("/metrics/")[0] == 200


def test_very_many_queues_are_scraped_and_nobody_waits_for_that(
    world: BrokerProcess, prometheus: Prometheus
) -> None:
    door = ManagementDoor(world)
    door.do("PUT", "vhosts", "many")
    queues = [
        {"name": f"q{n}", "vhost": "many", "durable": False, "auto_delete": False, "arguments": {}}
        for n in range(MANY)
    ]
    door.do("POST", "definitions", body={"queues": queues})
    bystander = Bystander(world.host, world.port)
    try:
        bystander.assert_undisturbed()
        bystander.longest_wait = 0.0
        scrapes = [
            threading.Thread(target=prometheus.raw, args=(path,))
            for path in ("/metrics", "/metrics/per-object") * 2
        ]
        for scrape in scrapes:
            scrape.start()
        told = prometheus.scrape("/metrics/per-object")
        for scrape in scrapes:
            scrape.join()
        bystander.assert_undisturbed()
    finally:
        bystander.stop()
        door.do("DELETE", "vhosts", "many")
    assert sum(name == "rabbitmq_queue_messages_ready" for name, _ in told) >= MANY
    assert prometheus.value("routelog_event_loop_held_seconds") < 5


def test_a_port_that_is_taken_leaves_the_broker_without_metrics(
    world: BrokerProcess, prometheus: Prometheus, fresh_broker: Any
) -> None:
    without = fresh_broker(ROUTELOG_PROMETHEUS_PORT=str(prometheus.port))
    assert "there are no metrics" in without.log_text()
    listeners = ManagementDoor(without).get("overview")["listeners"]
    assert [each["protocol"] for each in listeners] == ["amqp", "http"]


def test_metrics_are_there_without_the_http_api_and_can_be_switched_off(fresh_broker: Any) -> None:
    off = fresh_broker(ROUTELOG_PROMETHEUS="false")
    assert "Prometheus" not in off.log_text()
    alone = fresh_broker(ROUTELOG_MANAGEMENT="false")
    (line,) = (line for line in alone.log_text().splitlines() if "listening for Prometheus" in line)
    connection = HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]), timeout=WAIT_SECONDS)
    connection.request("GET", "/metrics")
    assert b"rabbitmq_identity_info" in connection.getresponse().read()
    connection.close()
