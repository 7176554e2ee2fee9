"""How a node's member of the managed etcd begins: the others are real sockets, etcd a script."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.ports import free_port
from support.waiting import until

from routelog.log_backend import SystemDisk
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.node.own_etcd import OwnEtcd
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.secret_authority import SecretAuthority

UNAVAILABLE = {"code": 14, "message": "etcdserver: no leader"}
RECORD = ShardRecord(0, "b", 1, 1, frozenset("b"), ("a", "b"))


class OtherMember:
    """The one other member, as it answers."""

    def __init__(self, *members: dict[str, object]) -> None:
        self.members = members
        self.told_to_members: list[dict[str, object]] = [OTHER]
        self.silent = 0  # requests that it does not answer in time
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path.rpartition("/")[2])
        if self.silent:
            self.silent -= 1
            return web.json_response(UNAVAILABLE, status=503)
        if "/kv/" in request.path:
            return web.json_response({"header": {"revision": "1"}})  # no record yet
        return web.json_response({"members": self.members})

    async def answer_member(self, request: web.Request) -> web.Response:
        return web.json_response(self.told_to_members)


@asynccontextmanager
async def listening(other: OtherMember) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/v3/{path:.*}", other.answer)
    application.router.add_get("/members", other.answer_member)
    async with TestServer(application, host="127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The arguments of each start of etcd, a line each; the one that finds `removed` ends with status 0."""
    file, removed = tmp_path / "starts", tmp_path / "removed"
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "etcd"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo etcd Version: 3.5.40; exit; }\n'
        f'echo "$@" >> {file}\n[ -e {removed} ] && {{ rm {removed}; exit 0; }}\nexec sleep 3600\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("routelog.mirror_cluster.node.own_etcd.JOIN_PAUSE_SECONDS", 0.0)
    return file


def own_etcd(folder: Path, other_url: str, authority: SecretAuthority | None = None) -> OwnEtcd:
    options = ClusterOptions(
        name="orders",
        node="a",
        addresses={"a": "127.0.0.1:1", "b": "127.0.0.1:2"},
        listen=("127.0.0.1", 1),
        secret=b"",
        tls=None,
        authority=authority,
        etcd=[f"http://127.0.0.1:{free_port()}", other_url],
        etcd_peers=["http://127.0.0.1:3", other_url],
        etcd_user="",
        etcd_password="",
        min_in_sync=1,
    )
    return OwnEtcd(options, folder / "data", SystemDisk())


def told(starts: Path) -> list[str]:
    return starts.read_text().splitlines() if starts.exists() else []


OTHER: dict[str, object] = {
    "ID": "4",
    "peerURLs": ["http://127.0.0.1:4"],
    "clientURLs": ["http://x:1"],
}
LOST: dict[str, object] = {
    "ID": "3",
    "peerURLs": ["http://127.0.0.1:3"],
    "clientURLs": ["http://x:2"],
}


async def test_members_begin_together_where_nothing_listens(tmp_path: Path, starts: Path) -> None:
    etcd = own_etcd(tmp_path, f"http://127.0.0.1:{free_port()}")
    await etcd.start()
    await until(lambda: bool(told(starts)))
    await etcd.stop()
    assert "--initial-cluster-state=new" in told(starts)[0]


async def test_who_does_not_answer_at_once_has_not_gone(tmp_path: Path, starts: Path) -> None:
    other = OtherMember(OTHER, LOST)
    other.silent = 3
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()
        await until(lambda: bool(told(starts)))
        await etcd.stop()
    assert "--initial-cluster-state=existing" in told(starts)[0]
    assert other.asked == ["list"] * 4 + ["remove", "add"]


async def test_who_never_answers_is_not_waited_for(tmp_path: Path, starts: Path) -> None:
    other = OtherMember()
    other.silent = 1_000
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()
        await until(lambda: bool(told(starts)))
        await etcd.stop()
    assert "--initial-cluster-state=new" in told(starts)[0]
    assert other.asked == ["list"] * 10


async def test_who_waits_for_the_first_majority_is_not_waited_for(
    tmp_path: Path, starts: Path
) -> None:
    other = OtherMember()
    other.silent = 1_000
    other.told_to_members = [{key: OTHER[key] for key in ("ID", "peerURLs")}]
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()
        await until(lambda: bool(told(starts)))
        await etcd.stop()
    assert "--initial-cluster-state=new" in told(starts)[0]
    assert other.asked == ["list"]


async def test_who_reads_its_log_is_not_taken_for_new(tmp_path: Path, starts: Path) -> None:
    other = OtherMember(OTHER, LOST)
    other.silent = 3
    other.told_to_members = []
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()
        await until(lambda: bool(told(starts)))
        await etcd.stop()
    assert "--initial-cluster-state=existing" in told(starts)[0]


async def test_a_member_whose_node_has_left_ends_when_the_others_have_removed_it(
    tmp_path: Path, starts: Path
) -> None:
    old = tmp_path / "data" / "etcd" / "member" / "wal" / "0.wal"
    old.parent.mkdir(parents=True)
    old.touch()
    other = OtherMember(OTHER, LOST)
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()
        await until(lambda: bool(told(starts)))
        other.silent = 1
        left = replace(RECORD, replicas=("b",))
        etcd.on_view(left, set())
        await until(lambda: not other.silent and etcd._changing is None)
        assert old.exists()
        etcd.on_view(left, set())
        await until(lambda: etcd._changing is None)
        await etcd.stop()
    assert other.asked == ["list", "list", "remove"]
    assert not old.exists()
    assert len(told(starts)) == 1


async def test_a_member_that_was_removed_joins_anew_with_an_empty_directory(
    tmp_path: Path, starts: Path
) -> None:
    old = tmp_path / "data" / "etcd" / "member" / "wal" / "0.wal"
    old.parent.mkdir(parents=True)
    old.touch()
    (tmp_path / "removed").touch()
    other = OtherMember(OTHER)
    async with listening(other) as url:
        etcd = own_etcd(tmp_path, url)
        await etcd.start()

        def is_started_again() -> bool:
            etcd.on_view(RECORD, set())
            return len(told(starts)) == 2

        await until(is_started_again)
        await etcd.stop()
    assert "--initial-cluster-state=existing" in told(starts)[1]
    assert not old.exists()
    assert set(other.asked) == {"list", "range", "add"}


async def test_without_certificates_of_the_operator_the_secret_makes_them(
    tmp_path: Path, starts: Path
) -> None:
    first = SecretAuthority(b"a secret of this test", "orders", "127.0.0.1")
    own, issuer = (tmp_path / "data" / "etcd-tls" / name for name in ("own.pem", "authority.pem"))
    etcd = own_etcd(tmp_path, f"https://127.0.0.1:{free_port()}", first)
    await etcd.start()
    await until(lambda: bool(told(starts)))
    await etcd.stop()
    assert own.read_bytes() == first.own
    assert issuer.read_bytes() == first.certificate
    for kind in ("", "peer-"):
        assert f"--{kind}cert-file={own}" in told(starts)[0]
        assert f"--{kind}key-file={own}" in told(starts)[0]
        assert f"--{kind}trusted-ca-file={issuer}" in told(starts)[0]
        assert f"--{kind}client-cert-auth=true" in told(starts)[0]

    # With each start others, as the secret may be another one.
    second = SecretAuthority(b"another one of this test", "orders", "127.0.0.1")
    etcd = own_etcd(tmp_path, f"https://127.0.0.1:{free_port()}", second)
    await etcd.start()
    await etcd.stop()
    assert own.read_bytes() == second.own
    assert sorted(os.listdir(own.parent)) == ["authority.pem", "own.pem"]
