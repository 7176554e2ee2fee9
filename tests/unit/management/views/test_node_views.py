"""The overview, this node, and health checks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from unit.management.managed_node import LISTENERS, Connection, ManagedNode

from routelog.broker import ProcessState
from routelog.management.calls.failures import Refused
from routelog.management.views import node_views
from routelog.management.views.health import Check, unless_log_failed
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import AccessRefused


async def test_the_overview_counts_what_the_caller_sees(node: ManagedNode) -> None:
    await node.queue("q")
    node.connections.open = [Connection("c", "u", node.vhost, "q")]
    row = await node.ask(node_views.overview)
    assert row["object_totals"]["queues"] == 1
    assert row["object_totals"]["connections"] == row["object_totals"]["consumers"] == 1
    assert {each["protocol"] for each in row["listeners"]} == set(LISTENERS)
    stranger = await node.ask(node_views.overview, node.caller("stranger", "management"))
    assert stranger["object_totals"] == {
        **dict.fromkeys(("queues", "exchanges", "connections", "channels", "consumers"), 0)
    }
    assert "listeners" not in stranger


async def test_the_node_tells_its_limits_and_alarms(node: ManagedNode) -> None:
    node.alarms, node.failure = ["disk"], "it broke"
    (row,) = await node.ask(node_views.list_nodes)
    assert {**row, "uptime": 0, "mem_used": 0, "fd_used": 0, "proc_used": 0} == {
        **await node.ask(node_views.get_node, name="routelog@here"),
        "uptime": 0,
        "mem_used": 0,
        "fd_used": 0,
        "proc_used": 0,
    }
    alarms = ("mem_alarm", "disk_free_alarm", "files_alarm", "journal_alarm", "log_alarm")
    assert [row[alarm] for alarm in alarms] == [False, True, False, False, True]
    assert (row["disk_free"], row["disk_free_limit"]) == (1_000, 100)
    assert (row["intake_bytes"], row["intake_bytes_limit"]) == (3, 30)
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(node_views.get_node, name="another")


async def test_all_nodes_of_a_cluster_are_listed(node: ManagedNode) -> None:
    node.cluster.nodes += [
        ReplicaState("b", blocks_behind=5),
        ReplicaState("c", False, False, None),
    ]
    rows = await node.ask(node_views.list_nodes)
    assert [
        (row["name"], row["running"], row["in_sync"], row["blocks_behind"]) for row in rows
    ] == [
        ("routelog@here", True, True, 0),
        ("b", True, True, 5),
        ("c", False, False, None),
    ]
    assert await node.ask(node_views.get_node, name="c") == rows[2]
    assert "os_pid" in rows[0]
    assert "os_pid" not in rows[2]


@pytest.mark.parametrize("check", [node_views.check_quorum, node_views.check_mirrors])
async def test_a_node_without_which_confirms_stop_is_critical(
    node: ManagedNode, check: Check
) -> None:
    await node.queue("q")
    node.cluster.nodes += [ReplicaState("b"), ReplicaState("c")]
    assert await node.ask(check) == {"status": "ok"}
    node.cluster.nodes[2] = ReplicaState("c", is_damaged=True)
    assert (await node.ask(check))[0] == 503
    node.cluster.nodes[2] = ReplicaState("c", is_in_sync=False)
    status, row = await node.ask(check)
    assert (status, row["status"]) == (503, "failed")
    assert row["reason"].startswith("There are ")
    assert [(each["name"], each["virtual_host"], each["type"]) for each in row["queues"]] == [
        ("q", "/", "classic")
    ]


async def test_the_cluster_gets_its_name_from_an_operator(node: ManagedNode) -> None:
    assert await node.ask(node_views.cluster_name) == {"name": "routelog@here"}
    assert await node.ask(node_views.put_cluster_name, body={"name": "ours"}) == 204
    assert await node.ask(node_views.cluster_name) == {"name": "ours"}
    with pytest.raises(Refused, match="str"):
        await node.ask(node_views.put_cluster_name, body={"name": 1})


async def test_a_check_of_ports_and_protocols_names_what_is_missing(node: ManagedNode) -> None:
    assert await node.ask(node_views.check_port, port="5672") == {"status": "ok", "port": 5672}
    for port in ("1", "-1", "9" * 9):
        status, row = await node.ask(node_views.check_port, port=port)
        assert (status, row["ports"]) == (503, [5672, 15672])
    for port in ("many", "1x", "9" * 10):
        with pytest.raises(Refused, match="Invalid port"):
            await node.ask(node_views.check_port, port=port)
    for protocol in ("amqp", "AMQP091", "amqp0-9-1"):
        row = await node.ask(node_views.check_protocol, protocol=protocol)
        assert row["status"] == "ok"
    status, row = await node.ask(node_views.check_protocol, protocol="amqps")
    assert (status, row["missing"]) == (503, "amqps")


async def test_certificates_that_expire_within_a_time_are_named(node: ManagedNode) -> None:
    file, soon = Path("/c.pem"), datetime.now(UTC) + timedelta(days=10)
    node.expiries = {"amqp": {file: soon}}
    ask = node.ask
    assert await ask(node_views.check_certificates, within="1", unit="weeks") == {"status": "ok"}
    status, row = await ask(node_views.check_certificates, within="1", unit="Months")
    assert (status, [each["certfile"] for each in row["expired"]]) == (503, [str(file)])
    for within, unit in (("-1", "days"), ("1", "hours"), ("many", "days"), ("1" * 6, "days")):
        with pytest.raises(Refused) as raised:
            await ask(node_views.check_certificates, within=within, unit=unit)
        assert raised.value.status == 400


async def test_a_node_is_alive_when_a_message_comes_back(node: ManagedNode) -> None:
    assert await node.ask(node_views.check_aliveness) == {"status": "ok"}
    assert node.messages.published[0][3] == node_views.ALIVENESS_QUEUE
    node.messages.left = []
    with pytest.raises(Refused, match="did not come back"):
        await node.ask(node_views.check_aliveness)
    with pytest.raises(AccessRefused):
        await node.ask(node_views.check_aliveness, await node.user("u"))


async def test_a_node_is_ready_when_all_of_its_processes_are(node: ManagedNode) -> None:
    assert await node.ask(node_views.check_ready) == {"status": "ok"}
    there = [ProcessState(number, number, is_ready=True, connections=0) for number in (1, 2)]
    node.processes = [*there, ProcessState(3, 9, is_ready=False, connections=0)]
    status, row = await node.ask(node_views.check_ready)
    assert status == 503
    assert row["reason"] == "processes that are away, or silent: 3"
    node.processes = there
    assert await node.ask(node_views.check_ready) == {"status": "ok"}


async def test_no_check_is_passed_when_the_log_has_failed(node: ManagedNode) -> None:
    check = unless_log_failed(node_views.check_quorum)
    assert (await node.ask(check))["status"] == "ok"
    node.failure, node.alarms = "it broke", ["memory"]
    status, row = await node.ask(check)
    assert (status, row["status"]) == (503, "failed")
    assert row["reason"].startswith("it broke; this node accepts no more writes")
    assert [each["resource"] for each in row["alarms"]] == ["log", "memory"]
