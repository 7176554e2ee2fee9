"""`routelog cluster status`, from what the coordinator holds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.ports import free_port
from typer.testing import CliRunner
from unit.mirror_cluster.journals import record

from routelog.__main__ import command_line
from routelog.mirror_cluster import ClusterOptions
from routelog.mirror_cluster.commands import cluster_commands
from routelog.mirror_cluster.commands.cluster_status import in_words
from routelog.mirror_cluster.coordination.coordinator import ClusterView, NodeEntry
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

CONFIGURATION = """
node_name = "q@a"
cluster_nodes = ["q@a=127.0.0.1:25672", "q@b=127.0.0.1:25682"]
cluster_secret = "0123456789abcdef"
cluster_etcd = ["http://127.0.0.1:{port}"]
"""

NODES = {name: NodeEntry(name, at, f"{name}:1", at) for at, name in enumerate("abc", 1)}
ADDRESSES = {name: f"{name}:1" for name in "abc"}
WELL = ClusterView(9, {3: replace(record(), changed_at=1764079200 * 1_000_000)}, NODES)


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    file = tmp_path / "routelog.toml"
    file.write_text(CONFIGURATION.format(port=free_port()))
    return file


def status(monkeypatch: pytest.MonkeyPatch, file: Path, view: ClusterView) -> tuple[dict, int]:
    async def read(options: ClusterOptions) -> ClusterView:
        assert options.node == "q@a"
        return view

    monkeypatch.setattr(cluster_commands, "_read", read)
    result = CliRunner().invoke(
        command_line, ["cluster", "status", "--json", "--config", str(file)]
    )
    table = CliRunner().invoke(command_line, ["cluster", "status", "--config", str(file)])
    assert table.exit_code == result.exit_code
    assert "leader" in table.stdout or not view.records
    return msgspec.json.decode(result.stdout), result.exit_code


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, configuration: Path) -> None:
    told, code = status(monkeypatch, configuration, WELL)
    assert code == 0
    assert told["is_well"]
    assert told["shards"] == [
        {
            "shard": 3,
            "leader": "a",
            "led": True,
            "epoch": 1,
            "in_sync": ["a", "b", "c"],
            "replicas": ["a", "b", "c"],
            "unclean": 0,
            "min_in_sync": 2,
            "since": "2025-11-25T14:00:00Z",
        }
    ]


@pytest.mark.parametrize(
    "view",
    [
        ClusterView(9),
        replace(WELL, records={3: record(in_sync="ab")}),
        replace(WELL, records={3: record(claim=7)}),
        replace(WELL, nodes={"b": NODES["b"], "c": NODES["c"]}),
        replace(WELL, nodes={"a": NODES["a"], "b": NODES["b"]}),  # c is in sync for a moment longer
    ],
)
def test_what_is_missing_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, configuration: Path, view: ClusterView
) -> None:
    told, code = status(monkeypatch, configuration, view)
    assert code == 1
    assert not told["is_well"]


def test_who_is_dead_is_told(monkeypatch: pytest.MonkeyPatch, configuration: Path) -> None:
    alive = NodeEntry("q@b", 5, "10.0.0.2:7", 6, since=1764079201_999_999)
    seen = replace(
        record(),
        in_sync=frozenset(("q@b",)),
        incarnations={"q@b": 6},
        replicas=("q@a", "q@b"),
    )
    view = replace(WELL, nodes={"q@b": alive}, records={3: seen})
    told, _ = status(monkeypatch, configuration, view)
    assert told["nodes"] == [
        {
            "node": "q@a",
            "address": "127.0.0.1:25672",
            "alive": False,
            "replica": True,
            "in_sync": False,
            "damaged": False,
            "refuses": False,
            "since": "",
        },
        {
            "node": "q@b",
            "address": "10.0.0.2:7",
            "alive": True,
            "replica": True,
            "in_sync": True,
            "damaged": False,
            "refuses": False,
            "since": "2025-11-25T14:00:01Z",
        },
    ]


def test_who_is_damaged_is_told(monkeypatch: pytest.MonkeyPatch, configuration: Path) -> None:
    damaged = {name: replace(entry, is_damaged=name == "b") for name, entry in NODES.items()}
    told, code = status(monkeypatch, configuration, replace(WELL, nodes=damaged))
    assert (told["is_well"], code) == (False, 1)
    assert ", damaged queues at b: confirms go on" in told["summary"]
    assert [each["node"] for each in told["nodes"] if each["damaged"]] == ["b"]
    # It does not lead while another one is whole, also one that does not run.
    told, code = status(monkeypatch, configuration, replace(WELL, nodes={"b": damaged["b"]}))
    assert "nobody leads: b has damaged queues. Start a, c, or lose" in told["summary"]


def test_an_etcd_that_is_away_is_one_line(configuration: Path) -> None:
    result = CliRunner().invoke(command_line, ["cluster", "status", "--config", str(configuration)])
    assert result.exit_code == 2
    assert result.stderr.startswith("routelog: etcd: http://127.0.0.1:")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "routelog: cluster_nodes: there is no cluster\n"),
        ('cluster_nodes = ["q@z=127.0.0.1:1"]', "routelog: cluster_nodes: this node, "),
    ],
)
def test_a_configuration_without_this_cluster_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "routelog.toml").write_text(text)
    arguments = ["cluster", "status", "--config", str(tmp_path / "routelog.toml")]
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(told)


def told_in_words(
    alive: str, seen: ShardRecord | None, peers: Sequence[str] = (), min_in_sync: int = 2
) -> str:
    options = ClusterOptions(
        "q", "a", ADDRESSES, ("", 1), b"", None, [], peers, "", "", min_in_sync
    )
    nodes = {name: NODES[name] for name in alive}
    return in_words(options, ClusterView(9, {} if seen is None else {0: seen}, nodes))


@pytest.mark.parametrize(
    ("alive", "seen", "told"),
    [
        ("abc", record(), "3 of 3 nodes alive: confirms go on, 1 may fail without stopping them"),
        ("ab", record(), "2 of 3 nodes alive: confirms go on, one more failure stops them"),
        (
            "abc",
            record(in_sync="ab"),
            "3 of 3 nodes alive, c not in sync: confirms go on, one more failure stops them",
        ),
        ("a", record(), "1 of 3 nodes alive: nothing is confirmed until 2 are in sync"),
        ("bc", record(), "2 of 3 nodes alive: nobody leads; an election is under way"),
        (
            "c",
            record(in_sync="ab"),
            "1 of 3 nodes alive: nobody leads, and only a, b had everything: start one of them, or"
            " lose what the others lack: `routelog cluster recover --accept-loss NODE`",
        ),
        (
            "ab",
            None,
            "2 of 3 nodes alive: the cluster begins when all are there; c missing",
        ),
        (
            "abc",
            None,
            "3 of 3 nodes alive: the cluster has not begun; if several have data:"
            " `routelog cluster init --from NODE`",
        ),
    ],
)
def test_what_an_operator_has_to_know_is_one_sentence(
    alive: str, seen: ShardRecord | None, told: str
) -> None:
    assert told_in_words(alive, seen) == told


def test_what_a_managed_etcd_survives_is_told() -> None:
    stops = "2 of 2 nodes alive: confirms go on, one more failure stops them"
    two = record(in_sync="ab", replicas="ab")
    assert told_in_words("ab", two, ["http://a", "http://b"], 1) == stops
    assert "1 may fail" in told_in_words("ab", two, (), 1)
    three = told_in_words("abc", record(), ["http://a", "http://b", "http://c"], 1)
    assert three == "3 of 3 nodes alive: confirms go on, 1 may fail without stopping them"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["transfer", "--to", "q@z"], 2, "routelog: no node 'q@z'; there are q@a, q@b\n"),
        (["recover", "q@b"], 1, "routelog: --accept-loss: confirmed messages that q@b does not "),
        (["drain", "q@b"], 2, "routelog: etcd: http://127.0.0.1:"),
    ],
)
def test_a_command_that_cannot_be_given_is_one_line(
    configuration: Path, arguments: list[str], code: int, told: str
) -> None:
    result = CliRunner().invoke(
        command_line, ["cluster", *arguments, "--config", str(configuration)]
    )
    assert result.exit_code == code
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1


def test_a_refusal_is_json_too(monkeypatch: pytest.MonkeyPatch, configuration: Path) -> None:
    class Nobody:
        async def read(self) -> ClusterView:
            return ClusterView(9)

        async def aclose(self) -> None:
            pass

    monkeypatch.setattr(cluster_commands, "open_coordinator", lambda options: Nobody())
    arguments = ["cluster", "transfer", "--json", "--config", str(configuration)]
    result = CliRunner().invoke(command_line, arguments)
    told = msgspec.json.decode(result.stdout)
    assert (told["done"], told["reason"], result.exit_code) == (False, "nobody leads", 1)
    assert result.stderr == "routelog: nobody leads\n"
