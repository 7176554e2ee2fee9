"""The coordinator against a real etcd, whose members hang, die, compact and come back."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trustme
from cluster.nodes.etcd_cluster import LEASE_SECONDS, PREFIX, EtcdCluster, until_ready
from support.node_certificates import node_files

from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    NodeCommand,
    NodeEntry,
    NodeNameTaken,
    Verb,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import (
    EtcdEndpoints,
    EtcdGateway,
    encoded,
)
from routelog.mirror_cluster.coordination.managed_etcd import lead_elsewhere
from routelog.mirror_cluster.node_tls import NodeTls, TlsFiles
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

RECORD = ShardRecord(0, "a", 7, 1, frozenset(("a",)), ("a", "b", "c"), {"a": 1})
NODE = NodeEntry("a", 7, "127.0.0.1:25672", 1)


@asynccontextmanager
async def running(
    folder: Path, members: int, tls: TlsFiles | None = None
) -> AsyncIterator[EtcdCluster]:
    cluster = EtcdCluster(folder, members, tls)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def ready(cluster: EtcdCluster, **options: object) -> AsyncIterator[EtcdCoordinator]:
    coordinator = cluster.coordinator(**options)
    try:
        await until_ready(coordinator)
        yield coordinator
    finally:
        await coordinator.aclose()


async def test_a_record_is_set_once_for_each_revision(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        empty = await coordinator.read()
        assert (empty.records, empty.nodes) == ({}, {})
        made = await coordinator.propose(RECORD)
        assert made is not None
        assert made == replace(RECORD, revision=made.revision)
        assert await coordinator.propose(RECORD) is None, "there is one"
        next_epoch = replace(made, epoch=2)
        changed = await coordinator.propose(next_epoch, made)
        assert changed is not None
        assert await coordinator.propose(next_epoch, made) is None, "it has changed since"
        another = replace(changed, claim=changed.claim + 1)
        set_back = "a coordinator that was set back has another record of the same revision"
        assert await coordinator.propose(next_epoch, another) is None, set_back
        other = replace(RECORD, shard=1)
        assert await coordinator.propose(other)
        view = await coordinator.read()
        assert view.records[0] == changed
        assert set(view.records) == {0, 1}
        assert view.revision > changed.revision


async def test_of_many_that_propose_at_once_one_is_accepted(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        record = await coordinator.propose(RECORD)
        for _ in range(20):
            assert record is not None
            asked = [coordinator.propose(replace(record, claim=each), record) for each in range(8)]
            accepted = [each for each in await asyncio.gather(*asked) if each is not None]
            assert len(accepted) == 1
            record = (await coordinator.read()).records[0]
            assert record == accepted[0]


async def test_a_node_is_listed_as_long_as_its_lease(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as first, ready(cluster) as second:
        assert await first.register(NODE) >= LEASE_SECONDS
        assert (await second.read()).nodes == {"a": NODE}
        with pytest.raises(NodeNameTaken):
            await second.register(replace(NODE, process=8, incarnation=2))
        for _ in range(4):
            await asyncio.sleep(LEASE_SECONDS / 3)
            assert await first.renew()
        assert (await second.read()).nodes == {"a": NODE}
        await first.leave()
        assert (await second.read()).nodes == {}
        assert not await first.renew(), "there is no lease"


async def test_an_entry_stays_that_a_late_endpoint_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        await coordinator.register(NODE)
        request = coordinator._gateway.request

        async def sent_again(path: str, body: Mapping[str, object]) -> bytes:
            if path == "kv/txn":
                await request(path, body)  # its answer comes too late
            return await request(path, body)

        monkeypatch.setattr(coordinator._gateway, "request", sent_again)
        changed = replace(NODE, process=NODE.process + 1)
        with pytest.raises(NodeNameTaken):
            await coordinator.register(changed)
        monkeypatch.undo()
        assert (await coordinator.read()).nodes == {"a": changed}
        await coordinator.register(changed)
        assert await coordinator.renew()


async def test_a_command_waits_for_its_node_which_takes_it_once(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as first, ready(cluster) as second:
        wanted = NodeCommand("a", 7, Verb.TRANSFER, "b", 5)
        made = await first.command(wanted, 60)
        assert made == replace(wanted, revision=made.revision)
        assert await first.command(wanted, 60) is None, "one waits"
        assert await first.command(replace(wanted, node="b"), 60)
        commands = (await second.read()).commands
        assert commands["a"] == made
        assert await second.take(commands["a"])
        assert not await first.take(made), "it is gone"
        assert set((await second.read()).commands) == {"b"}
        assert await first.command(wanted, 1)
        async with asyncio.timeout(60):
            while "a" in (await second.read()).commands:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_the_next_process_on_the_same_data_takes_the_name_over(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as first, ready(cluster) as second:
        await first.register(NODE)
        later = replace(NODE, process=8)
        await second.register(later)
        assert (await first.read()).nodes == {"a": later}
        await first.leave()
        assert (await second.read()).nodes == {"a": later}, "it has a lease of its own"
        assert await second.renew()


async def test_a_lease_that_is_not_renewed_ends(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        await coordinator.register(NODE)
        async with asyncio.timeout(5 * LEASE_SECONDS):
            while (await coordinator.read()).nodes:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not await coordinator.renew()
        await coordinator.register(NODE)
        assert await coordinator.renew()


@pytest.mark.parametrize("hurt", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.long
async def test_each_member_in_turn_may_hang_or_die(tmp_path: Path, hurt: signal.Signals) -> None:
    async with running(tmp_path, 3) as cluster, ready(cluster) as coordinator:
        record = await coordinator.propose(RECORD)
        for epoch, member in enumerate(cluster.children, 2):
            cluster.signal(member, hurt)
            async with asyncio.timeout(60):
                record = await set_epoch(coordinator, epoch)
            if hurt is signal.SIGSTOP:
                cluster.signal(member, signal.SIGCONT)
            else:  # the supervisor starts it again; two of three must be there for the next
                await until_answering(cluster, member)
        assert record.epoch == 4


async def set_epoch(coordinator: EtcdCoordinator, epoch: int) -> ShardRecord:
    """As a replica does: what became of a proposal that nobody answered is read."""
    while True:
        try:
            record = (await coordinator.read()).records[0]
            if record.epoch == epoch:
                return record
            await coordinator.propose(replace(record, epoch=epoch), record)
        except CoordinatorUnavailable:
            await asyncio.sleep(0.05)


async def until_answering(cluster: EtcdCluster, member: object) -> None:
    url = cluster.urls[cluster.children.index(member)]
    gateway = EtcdGateway(replace(cluster.endpoints(), urls=[url]))
    alone = EtcdCoordinator(gateway, PREFIX, LEASE_SECONDS)
    await until_ready(alone)
    await alone.aclose()


@pytest.mark.long
async def test_nothing_is_lost_when_all_members_are_killed(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as cluster, ready(cluster) as coordinator:
        made = await coordinator.propose(RECORD)
        for member in cluster.children:
            cluster.signal(member, signal.SIGKILL)
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.read()
        await until_ready(coordinator)
        assert (await coordinator.read()).records == {0: made}
        assert [each.starts for each in cluster.children] == [2, 2, 2]


@pytest.mark.long
async def test_without_a_majority_nothing_is_read_and_nothing_set(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as cluster, ready(cluster) as coordinator:
        made = await coordinator.propose(RECORD)
        assert made is not None
        for member in cluster.children[:2]:
            cluster.signal(member, signal.SIGSTOP)
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.read()
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.propose(replace(made, epoch=2), made)


async def test_a_member_that_leads_etcd_hands_that_over_to_one_that_may(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as cluster, ready(cluster):
        before = await leader_of(cluster)
        for to in range(3):
            others = {peer for at, peer in enumerate(cluster.peer_urls) if at != before}
            await asked(cluster, before, others if to else {cluster.peer_urls[before - 1]})
            now = await leader_of(cluster)
            assert now != before
            await asked(cluster, before, others)  # it leads nothing: nothing to do
            assert await leader_of(cluster) == now
            before = now


async def asked(cluster: EtcdCluster, member: int, peer_urls: set[str]) -> None:
    own = EtcdGateway(EtcdEndpoints([cluster.urls[member]]))
    try:
        await lead_elsewhere(own, peer_urls)
    finally:
        await own.aclose()


async def leader_of(cluster: EtcdCluster) -> int:
    """Which member leads, as soon as all say the same."""
    async with asyncio.timeout(30):
        while True:
            told = [await told_by(url) for url in cluster.urls]
            leads = [at for at, (member, leader) in enumerate(told) if member == leader]
            if len(leads) == 1 and len({leader for _, leader in told}) == 1:
                return leads[0]
            await asyncio.sleep(0.1)


async def told_by(url: str) -> tuple[str, str]:
    own = EtcdGateway(EtcdEndpoints([url]))
    try:
        status = msgspec.json.decode(await own.request("maintenance/status", {}))
        return status["header"]["member_id"], status["leader"]
    finally:
        await own.aclose()


async def test_compaction_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        record = await coordinator.propose(RECORD)
        for epoch in range(2, 12):
            assert record is not None
            record = await coordinator.propose(replace(record, epoch=epoch), record)
        assert record is not None
        gateway = EtcdGateway(cluster.endpoints())
        body = {"revision": record.revision, "physical": True}
        await gateway.request("kv/compaction", body)
        await gateway.aclose()
        assert (await coordinator.read()).records == {0: record}
        assert await coordinator.propose(replace(record, epoch=12), record)


async def test_a_record_that_somebody_else_wrote_is_not_guessed_at(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster, ready(cluster) as coordinator:
        gateway = EtcdGateway(cluster.endpoints())
        key = encoded(f"{PREFIX}/shards/0".encode())
        await gateway.request("kv/put", {"key": key, "value": encoded(b"{}")})
        await gateway.aclose()
        with pytest.raises(CoordinatorRefused, match=f"{PREFIX}/shards/0 cannot be read: "):
            await coordinator.read()


async def test_a_user_with_the_wrong_password_is_refused_and_a_token_is_renewed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 1) as cluster:
        async with ready(cluster):
            await protect(EtcdGateway(cluster.endpoints()))
        wrong = EtcdGateway(cluster.endpoints(user="root", password="wrong"))
        with pytest.raises(CoordinatorRefused, match="authentication failed"):
            await wrong.request("kv/range", {"key": encoded(b"x")})
        await wrong.aclose()
        stranger = EtcdGateway(cluster.endpoints())
        with pytest.raises(CoordinatorRefused, match="user name is empty"):
            await stranger.request("kv/range", {"key": encoded(b"x")})
        await stranger.aclose()
        async with ready(cluster, user="root", password="secret") as coordinator:
            made = await coordinator.propose(RECORD)
            cluster.signal(cluster.children[0], signal.SIGKILL)  # and its tokens are gone
            await until_ready(coordinator)
            assert (await coordinator.read()).records == {0: made}


async def protect(gateway: EtcdGateway) -> None:
    """Make etcd ask for a user and a password."""
    await gateway.request("auth/user/add", {"name": "root", "password": "secret"})
    await gateway.request("auth/user/grant", {"user": "root", "role": "root"})
    await gateway.request("auth/enable", {})
    await gateway.aclose()


async def test_members_and_clients_prove_who_they_are(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = node_files(authority, tmp_path / "own")
    stranger = node_files(trustme.CA(), tmp_path / "stranger")
    with stranger.authorities.open("ab") as file:
        file.write(authority.cert_pem.bytes())
    async with running(tmp_path, 3, files) as cluster:
        async with ready(cluster, tls=NodeTls(files, "127.0.0.1")) as coordinator:
            assert await coordinator.propose(RECORD)
        for options in ({"tls": NodeTls(stranger, "127.0.0.1")}, {}):
            refused = cluster.coordinator(**options)
            with pytest.raises(CoordinatorUnavailable):
                await refused.read()
            await refused.aclose()
