"""docs/deploy/ without Docker and Kubernetes: schemas, settings, probes, metrics, commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import kubernetes_validate
import pika
import pytest
import yaml
from support.broker_process import ROOT, BrokerProcess
from support.management_door import ManagementDoor

from routelog.broker.node.configuration import BrokerConfig, load_configuration
from routelog.mirror_cluster import cluster_options

pytestmark = pytest.mark.differs_from_rabbitmq("its own files")

KIT = ROOT / "docs" / "deploy"
BOARD = KIT / "grafana" / "boards" / "routelog.json"
MANIFESTS = sorted((KIT / "kubernetes").glob("*.yaml"))
METRIC = re.compile(r"\b(?:rabbitmq|routelog)_\w+")
# There with TLS, a standby or a follower only.
OF_OTHERS = {
    "routelog_certificate_expiry_timestamp_seconds",
    "routelog_standby_seconds_behind",
    "routelog_replica_blocks_behind",
}
GROUP = {"x-group": "readers", "x-stream-offset": "first"}


def documents(manifest: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest.read_text()))


def pod_of(manifest: Path) -> dict[str, Any]:
    (workload,) = (each for each in documents(manifest) if each["kind"] == "StatefulSet")
    return dict(workload["spec"]["template"]["spec"])


def container_of(manifest: Path) -> dict[str, Any]:
    (container,) = pod_of(manifest)["containers"]
    return dict(container)


def environment_of(manifest: Path) -> dict[str, str]:
    """What the broker is given; a value from a secret is a text of some length."""
    return {
        each["name"]: each.get("value", "from a secret of the cluster")
        for each in container_of(manifest)["env"]
    }


def configured(environment: dict[str, str]) -> BrokerConfig:
    return load_configuration(
        file_name="", file_text="", environment=environment, options={}, settings=()
    )


def scraped(world: BrokerProcess, path: str) -> tuple[int, str]:
    listeners = ManagementDoor(world).get("overview")["listeners"]
    (port,) = (each["port"] for each in listeners if each["protocol"] == "http/prometheus")
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


# -- Kubernetes


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_what_kubernetes_takes(manifest: Path) -> None:
    for document in documents(manifest):
        kubernetes_validate.validate(document, "1.34", strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_the_settings_of_a_pod_are_keys_of_the_configuration(manifest: Path) -> None:
    environment = environment_of(manifest)
    config = configured(environment)
    assert config.default_user == "admin"
    assert config.default_user not in config.loopback_users
    # A service of this name makes ROUTELOG_PORT, which the broker would take for a key.
    assert pod_of(manifest)["enableServiceLinks"] is False
    data = next(each for each in container_of(manifest)["volumeMounts"] if each["name"] == "data")
    assert config.data_dir.parent == Path(data["mountPath"])


def test_each_pod_of_the_cluster_is_a_node_of_it() -> None:
    (manifest,) = (each for each in MANIFESTS if each.name == "cluster.yaml")
    (workload,) = (each for each in documents(manifest) if each["kind"] == "StatefulSet")
    policy = next(each for each in documents(manifest) if each["kind"] == "NetworkPolicy")
    name, spec = workload["metadata"]["name"], workload["spec"]
    config = configured(environment_of(manifest))
    for number in range(spec["replicas"]):
        options = cluster_options(config, f"{config.node_name}@{name}-{number}")
        assert options is not None
        assert options.is_managed
        address = options.addresses[options.node]
        assert address == f"{name}-{number}.{spec['serviceName']}:25672"
    # Nobody but the nodes reaches them and their etcd.
    (ports,) = (rule["ports"] for rule in policy["spec"]["ingress"] if "from" in rule)
    assert ports == [{"port": 25_672, "endPort": 25_674}]


def test_a_node_is_drained_by_a_command_that_there_is(tmp_path: Path) -> None:
    (manifest,) = (each for each in MANIFESTS if each.name == "cluster.yaml")
    command = container_of(manifest)["lifecycle"]["preStop"]["exec"]["command"]
    # In the place of the program, one that is refused once: the line tries again.
    program = tmp_path / "routelog"
    program.write_text('#!/bin/sh\necho "$@" >> "$0.told"\ntest "$(wc -l < "$0.told")" -gt 1\n')
    (tmp_path / "sleep").symlink_to("/bin/true")
    program.chmod(0o700)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, env={"PATH": path, "HOSTNAME": "routelog-1"}, check=True)
    told = Path(f"{program}.told").read_text().splitlines()
    assert told == ["cluster drain routelog@routelog-1"] * 2
    # The real one takes these words: without etcd, it fails as it does then.
    real = subprocess.run(
        [sys.executable, "-m", "routelog", *told[0].split(), "--timeout", "1"],
        env={
            "PYTHONPATH": str(ROOT / "src"),
            "ROUTELOG_NODE_NAME": "routelog@routelog-1",
            "ROUTELOG_CLUSTER_NODES": "routelog@routelog-1=127.0.0.1:1",
            "ROUTELOG_CLUSTER_ETCD": "http://127.0.0.1:1",
            "ROUTELOG_CLUSTER_SECRET": "16 characters or more",
            "ROUTELOG_CLUSTER_MIN_IN_SYNC": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "etcd" in real.stderr, (real.stdout, real.stderr)
    assert "Usage" not in real.stderr


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_probes_ask_what_a_broker_answers(manifest: Path, probe: str, world: BrokerProcess) -> None:
    container = container_of(manifest)
    asked = container[probe]["httpGet"]
    (port,) = (
        each["containerPort"] for each in container["ports"] if each["name"] == asked["port"]
    )
    assert port == configured({}).prometheus_port
    status, text = scraped(world, asked["path"])
    assert status == 200
    assert "rabbitmq_detailed_process_open_tcp_sockets" in text


# -- Docker


def test_the_image_is_built_from_what_there_is() -> None:
    text = (KIT / "Dockerfile").read_text()
    kept = re.findall(r"^!(.*)$", (KIT / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert [name for name in kept if not (ROOT / name).exists()] == []
    packages = {each.parent.name for each in ROOT.glob("*/__init__.py")}
    assert packages <= set(kept)
    assert "\nUSER 5672:5672\n" in text
    linted = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linted, KIT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_container_is_healthy_while_its_broker_answers(
    world: BrokerProcess, tmp_path: Path
) -> None:
    (line,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", (KIT / "Dockerfile").read_text(), re.M)
    program, *arguments = json.loads(line)
    assert program == "routelog"
    for data, healthy in ((world.data_dir, True), (tmp_path, False)):
        done = subprocess.run(
            [sys.executable, "-m", "routelog", *arguments],
            env={"PYTHONPATH": str(ROOT / "src"), "ROUTELOG_DATA_DIR": str(data)},
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0) == healthy, done


def test_compose_takes_the_file_and_finds_what_it_mounts() -> None:
    file = KIT / "compose.yaml"
    checker = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    services = yaml.safe_load(file.read_text())["services"]
    mounted = [volume.split(":")[0] for each in services.values() for volume in each["volumes"]]
    assert [path for path in mounted if path[0] == "." and not (KIT / path).exists()] == []
    config = configured(
        {
            name: value if "{" not in value else "some text"
            for name, value in services["routelog"]["environment"].items()
        }
    )
    assert config.default_user not in config.loopback_users


# -- Prometheus and Grafana


def asked_metrics() -> dict[str, set[str]]:
    """The metrics of the board and of the alerts, by file."""
    board = json.loads(BOARD.read_text())
    rules = yaml.safe_load((KIT / "alerts.yml").read_text())["groups"]
    expressions = {
        BOARD.name: [target["expr"] for panel in board["panels"] for target in panel["targets"]],
        "alerts.yml": [rule["expr"] for group in rules for rule in group["rules"]],
    }
    return {name: set(METRIC.findall(" ".join(texts))) for name, texts in expressions.items()}


def test_each_metric_of_the_board_and_of_the_alerts_is_served(world: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(world.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kit", durable=True, arguments={"x-retention": "1h"})
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("kit", lambda *_: None, arguments=GROUP)
    channel.basic_publish("", "kit", b"x", pika.BasicProperties(delivery_mode=2))
    jobs = yaml.safe_load((KIT / "prometheus.yml").read_text())["scrape_configs"]
    served: set[str] = set()
    for job in jobs:
        families = job.get("params", {}).get("family", [])
        query = "&".join(f"family={each}" for each in families)
        status, text = scraped(world, f"{job.get('metrics_path', '/metrics')}?{query}")
        assert status == 200
        assert "no such family" not in text
        served |= set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))
    connection.close()
    for name, asked in asked_metrics().items():
        assert asked
        assert asked - served - OF_OTHERS == set(), name
    assert set().union(*asked_metrics().values()) >= OF_OTHERS


def test_the_pages_table_of_alerts_has_those_of_the_file() -> None:
    page = (ROOT / "docs" / "management" / "monitoring.md").read_text()
    table = set(METRIC.findall(page.partition("## What to be called for")[2].partition("##")[0]))
    # The page has the names of /metrics/per-object, which the job for queues does not scrape.
    alerts = {name.replace("_detailed_", "_") for name in asked_metrics()["alerts.yml"]}
    assert alerts - {"routelog_replicas"} == table
