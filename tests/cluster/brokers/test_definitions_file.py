"""A file of definitions, and nodes that begin to lead."""

from __future__ import annotations

import json
from pathlib import Path

from cluster.brokers.mirrored_brokers import mirrored_brokers
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until


def test_a_new_leader_brings_no_user_back_and_leads_without_what_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    document = {
        "users": [
            {"name": name, "password": name, "tags": "administrator"} for name in ("root", "eve")
        ],
        "vhosts": [{"name": "/"}],
    }
    file.write_text(json.dumps(document))

    def answers(leader: BrokerProcess) -> list[int]:
        wait_until((leader.data_dir / "management.json").exists)
        names = ("root", "eve")
        return [ManagementDoor(leader, (n, n)).ask("GET", "whoami")[0] for n in names]

    with mirrored_brokers(tmp_path, ROUTELOG_DEFINITIONS_FILE=str(file)) as cluster:
        cluster.until_led(in_sync=3)
        first = cluster.leader()
        assert answers(first) == [200, 200]
        door = ManagementDoor(first, ("root", "root"))
        door.do("DELETE", "users", "eve")
        door.do("PUT", "vhost-limits", "/", "max-queues", body={"value": 0})
        first.kill()
        cluster.until_led(in_sync=2)
        assert answers(cluster.leader()) == [200, 401]
        first.start()
        cluster.until_led(in_sync=3)
        # It was right when all nodes started.
        file.write_text(json.dumps(document | {"queues": [{"name": "q", "vhost": "/"}]}))
        second = cluster.leader()
        second.kill()
        cluster.until_led(in_sync=2)
        third = cluster.leader()
        assert answers(third) == [200, 401]
        assert "goes on without the definitions of its file: queues 'q'" in third.log_text()
