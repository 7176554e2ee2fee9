"""The etcd that a broker runs: which one, how, and that it comes back."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.waiting import until

from routelog.mirror_cluster.coordination.managed_etcd import (
    EtcdChild,
    EtcdMember,
    EtcdMissing,
    check_etcd,
    found_members,
    joining,
    remove_member,
)
from routelog.mirror_cluster.node_tls import TlsFiles


def script(folder: Path, text: str) -> str:
    file = folder / "etcd"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def member(folder: Path, tls: TlsFiles | None = None) -> EtcdMember:
    peers = {"b": "http://10.0.0.2:2380", "a": "http://10.0.0.1:2380"}
    data = folder / "etcd-data"
    return EtcdMember("a", data, "http://10.0.0.1:2379", "10.0.0.1", peers, "orders", tls)


class Members:
    """The other members, as they answer."""

    def __init__(self, *members: dict[str, object]) -> None:
        self.members = list(members)
        self.asked: list[tuple[str, object]] = []

    async def request(self, path: str, body: object) -> bytes:
        self.asked.append((path.rpartition("/")[2], body))
        return msgspec.json.encode({"members": self.members})


OTHER = {"ID": "7", "peerURLs": ["http://10.0.0.2:2380"], "clientURLs": ["http://10.0.0.2:2379"]}
UNKNOWN = {"ID": "8", "peerURLs": ["http://10.0.0.9:2380"], "clientURLs": ["http://10.0.0.9:2379"]}
LOST = {"ID": "9", "peerURLs": ["http://10.0.0.1:2380"], "clientURLs": ["http://10.0.0.1:2379"]}


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_who_is_no_member_joins_those_that_there_are_when_it_is_wanted(
    tmp_path: Path, is_wanted: bool
) -> None:
    async def asked() -> bool:
        return is_wanted

    others = Members(OTHER, UNKNOWN)
    found = await found_members(others)
    joined = await joining(member(tmp_path), found, others, asked)
    if not is_wanted:
        assert joined is None
        assert [each for each, _ in others.asked] == ["list"]
        return
    assert joined is not None
    assert joined.joins
    assert joined.peer_urls == {
        "a": "http://10.0.0.1:2380",
        "b": "http://10.0.0.2:2380",
        "8": "http://10.0.0.9:2380",
    }
    assert others.asked[1:] == [("add", {"peerURLs": ["http://10.0.0.1:2380"]})]


async def test_who_has_lost_its_disk_takes_the_place_of_its_member(tmp_path: Path) -> None:
    async def asked() -> bool:
        raise AssertionError

    others = Members(OTHER, LOST)
    found = await found_members(others)
    joined = await joining(member(tmp_path), found, others, asked)
    assert joined is not None
    assert set(joined.peer_urls) == {"a", "b"}
    assert others.asked[1:] == [
        ("remove", {"ID": "9"}),
        ("add", {"peerURLs": ["http://10.0.0.1:2380"]}),
    ]


async def test_a_member_is_taken_out_by_its_address() -> None:
    others = Members(OTHER, LOST)
    await remove_member("http://10.0.0.2:2380", others)
    await remove_member("http://10.0.0.3:2380", others)
    assert others.asked == [("list", {}), ("remove", {"ID": "7"}), ("list", {})]


@pytest.mark.parametrize(
    ("version", "advice"), [("3.4.23", 1), ("3.5.9", 1), ("3.5.33", 0), ("3.10.1", 0)]
)
async def test_an_old_etcd_is_taken_and_a_newer_one_advised(
    tmp_path: Path, version: str, advice: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = script(tmp_path, f"echo etcd Version: {version}\necho Git SHA: x")
    await check_etcd(path)
    assert len(caplog.messages) == advice


@pytest.mark.parametrize("text", ["echo etcd Version: 3.3.25", "echo something", "exit 1"])
async def test_what_is_no_etcd_or_too_old_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(EtcdMissing, match=r"no etcd 3\.4\.0 or later"):
        await check_etcd(script(tmp_path, text))
    with pytest.raises(EtcdMissing, match="etcd-server"):
        await check_etcd(str(tmp_path / "none"))


def test_a_member_knows_all_members_and_its_own_addresses(tmp_path: Path) -> None:
    arguments = member(tmp_path).arguments()
    assert "--initial-cluster=a=http://10.0.0.1:2380,b=http://10.0.0.2:2380" in arguments
    assert "--listen-peer-urls=http://10.0.0.1:2380" in arguments
    assert "--listen-client-urls=http://10.0.0.1:2379" in arguments
    assert not any("cert" in each for each in arguments)


@pytest.mark.parametrize(("lease", "election", "heartbeat"), [(2, 1200, 150), (10, 5000, 625)])
def test_elections_go_by_the_lease(
    tmp_path: Path, lease: int, election: int, heartbeat: int
) -> None:
    arguments = replace(member(tmp_path), lease_seconds=lease).arguments()
    assert f"--election-timeout={election}" in arguments
    assert f"--heartbeat-interval={heartbeat}" in arguments
    assert 1.5 * election <= 1_000 * lease, "etcd would give a longer one"


def test_a_member_listens_on_an_address_whatever_its_host_is_called(tmp_path: Path) -> None:
    named = replace(member(tmp_path), client_url="http://a.test:2379", listen_host="::1")
    assert "--listen-client-urls=http://[::1]:2379" in named.arguments()
    assert "--listen-peer-urls=http://[::1]:2380" in named.arguments()
    assert "--advertise-client-urls=http://a.test:2379" in named.arguments()


def test_with_certificates_both_sides_prove_who_they_are(tmp_path: Path) -> None:
    arguments = member(tmp_path, TlsFiles(Path("c"), Path("k"), Path("ca"))).arguments()
    for kind in ("", "peer-"):
        assert f"--{kind}client-cert-auth=true" in arguments
        assert f"--{kind}cert-file=c" in arguments
        assert f"--{kind}key-file=k" in arguments
        assert f"--{kind}trusted-ca-file=ca" in arguments


async def test_what_ends_by_itself_is_started_again_and_its_words_are_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "routelog.mirror_cluster.coordination.managed_etcd.RESTART_SECONDS_MIN", 0.01
    )
    child = EtcdChild(script(tmp_path, "echo disk is full >&2; exit 3"), member(tmp_path))
    await child.start()
    await until(lambda: child.starts >= 3)
    await child.stop()
    assert "etcd: disk is full" in caplog.messages
    assert any("status 3" in each for each in caplog.messages)
    assert child.pid is None


async def test_a_binary_that_is_gone_for_a_while_is_started_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RESTART_SECONDS_MIN", "RESTART_SECONDS_MAX"):
        monkeypatch.setattr(f"routelog.mirror_cluster.coordination.managed_etcd.{name}", 0.01)
    binary, away = script(tmp_path, "exec sleep 3600"), str(tmp_path / "away")
    child = EtcdChild(binary, member(tmp_path))
    await child.start()
    pid = child.pid
    assert pid is not None
    os.rename(binary, away)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: any("etcd does not start" in each for each in caplog.messages))
    os.rename(away, binary)
    await until(lambda: child.starts == 2 and child.pid is not None)
    await child.stop()


async def test_what_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.coordination.managed_etcd.STOP_SECONDS_MAX", 0.05)
    ready = tmp_path / "ready"
    text = f"trap '' TERM\ntouch {ready}\nwhile :; do sleep 0.01; done"
    child = EtcdChild(script(tmp_path, text), member(tmp_path))
    await child.start()
    await until(ready.exists)
    pid = child.pid
    assert pid is not None
    await child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PARENT = """
import asyncio, sys
from pathlib import Path
from routelog.mirror_cluster.coordination.managed_etcd import EtcdChild, EtcdMember

async def main():
    folder = Path(sys.argv[2])
    member = EtcdMember("a", folder / "data", "http://x:1", "::1", {"a": "http://y:2"}, "t")
    child = EtcdChild(sys.argv[1], member)
    await child.start()
    print(child.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux")
async def test_it_ends_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    etcd = script(tmp_path, "exec sleep 3600")
    broker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, etcd, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert broker.stdout is not None
    pid = int(await broker.stdout.readline())
    broker.send_signal(signal.SIGKILL)
    await broker.wait()
    await until(lambda: _state(pid) == "Z")


SUCCESSOR = """
import asyncio, os, sys
from pathlib import Path
from routelog.mirror_cluster.coordination.child_process import ChildProcess
from routelog.mirror_cluster.coordination.managed_etcd import EtcdChild, EtcdMember

async def main():
    folder, turn = Path(sys.argv[2]), int(sys.argv[3])
    peers = {"a": "http://y:2"}
    # As at a first start, as at a later one, and with another address
    host = "::2" if turn == 2 else "::1"
    member = EtcdMember("a", folder / "data", "http://x:1", host, peers, "t", joins=turn == 0)
    child = EtcdChild(sys.argv[1], member)
    await child.start(await ChildProcess.kept())
    print(child.pid, child.starts, flush=True)
    if turn < 2:
        child.keep()
        given = (*sys.argv[1:3], str(turn + 1), sys.argv[4])
        os.execv(sys.executable, [sys.executable, "-c", sys.argv[4], *given])
    await child.stop()

asyncio.run(main())
"""


async def test_a_broker_that_starts_itself_again_goes_on_with_it(tmp_path: Path) -> None:
    etcd = script(tmp_path, "exec sleep 3600")
    broker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUCCESSOR, etcd, str(tmp_path), "0", SUCCESSOR),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await broker.communicate()
    first, second, third = (line.split() for line in told.decode().splitlines())
    assert (first[1], second) == ("1", [first[0], "0"])
    assert third[0] != first[0], "what it was told is not true any more"
    assert third[1] == "1"
    assert _state(int(first[0])) == _state(int(third[0])) == "Z"


def _state(pid: int) -> str:
    """Of a process, as Linux has it; Z when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
