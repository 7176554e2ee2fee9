"""Files with tokens: whole at any time, and of their owner alone; and what a node is called."""

from pathlib import Path
from typing import Any

import pytest

from routelog.broker.node.configuration import BrokerConfig, load_configuration
from routelog.management.calls.request_origin import HostNames
from routelog.operators_door import log_token_key, own_names, tell_commands, write_private


def test_a_file_that_is_written_anew_is_whole_at_any_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_private(file, b"first")
    unwritable: Any = "no bytes"
    with pytest.raises(TypeError):
        write_private(file, unwritable)
    assert file.read_bytes() == b"first"
    file.chmod(0o644)
    write_private(file, b"second")  # over what the failure left
    assert file.read_bytes() == b"second"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_disk_that_takes_no_file_keeps_no_node_from_its_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tell_commands(tmp_path / "gone" / "management.json", "http://127.0.0.1:1", "t")
    assert "commands of this machine cannot find this node" in caplog.text


@pytest.mark.parametrize("host", ["a.example", "b.example", "10.0.0.2"])
def test_other_nodes_are_known_by_name_and_address(host: str) -> None:
    HostNames(own_names(member())).check(f"{host}:15672")


def test_nodes_of_one_cluster_sign_tokens_by_one_key(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    one, same = (log_token_key(member(), folder) for folder in folders)
    assert one == same
    assert not any(any(folder.iterdir()) for folder in folders)
    others = member(ROUTELOG_CLUSTER_NAME="other"), member(ROUTELOG_CLUSTER_SECRET="x" * 32)
    assert len({one, *(log_token_key(each, tmp_path) for each in others)}) == 3


def test_a_node_on_its_own_keeps_its_key(tmp_path: Path) -> None:
    alone = load_configuration(environment={"ROUTELOG_CLUSTER_SECRET": "x" * 32}, options={})
    kept = log_token_key(alone, tmp_path)
    assert log_token_key(alone, tmp_path) == kept
    (tmp_path / "log_token.key").unlink()
    assert log_token_key(alone, tmp_path) != kept


def member(**environment: str) -> BrokerConfig:
    nodes = {"rabbit@a.example": "10.0.0.1", "rabbit@b.example": "10.0.0.2"}
    return load_configuration(
        environment={
            "ROUTELOG_NODE_NAME": "rabbit@a.example",
            "ROUTELOG_CLUSTER_NODES": ",".join(f"{name}={at}:25672" for name, at in nodes.items()),
            "ROUTELOG_CLUSTER_ETCD": "managed",
            "ROUTELOG_CLUSTER_SECRET": "a secret of sixteen bytes or more",
            **environment,
        },
        options={},
    )
