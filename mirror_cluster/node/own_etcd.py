"""The member of the managed etcd that a node runs, as long as the node has a copy of the shard.

The members are the nodes that have copies, so that a node that has left, or has not joined yet, counts in no
majority. Before there is a record, all configured nodes begin together.

While this node leads the shard, another member leads etcd: when a machine dies, two elections one after the
other would take seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Set
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from routelog.log_backend import Disk, replace_file
from routelog.mirror_cluster.coordination.child_process import ChildProcess
from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    NobodyListens,
)
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.coordination.managed_etcd import (
    EtcdChild,
    EtcdMember,
    check_etcd,
    end_process,
    found_members,
    have_never_elected,
    joining,
    lead_elsewhere,
    remove_member,
)
from routelog.mirror_cluster.node.cluster_options import ClusterOptions, open_coordinator
from routelog.mirror_cluster.node_tls import TlsFiles
from routelog.mirror_cluster.protocol.shard_record import SHARD, ShardRecord

if TYPE_CHECKING:
    from routelog.mirror_cluster.secret_authority import SecretAuthority

log = logging.getLogger(__name__)

JOIN_TRIES_MAX, JOIN_PAUSE_SECONDS = 30, 1.0
# Of others that neither answer nor refuse the connection: then nobody is there
SILENT_TRIES_MAX = 10
LOOK_SECONDS = 5.0  # while this node leads: who leads etcd


class OwnEtcd:
    """Runs the node's member of etcd, takes it into the cluster and out of it."""

    def __init__(self, options: ClusterOptions, data: Path, disk: Disk) -> None:
        self._options = options
        self._disk = disk
        self._member = _member(options, data)
        self._tls_folder = data / "etcd-tls"
        self._child: EtcdChild | None = None
        self._changing: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")

    async def start(self) -> None:
        """Run it, if it is to run.

        Raises:
            EtcdMissing: there is none.
            CoordinatorRefused, CoordinatorUnavailable: the other members do not take it.
        """
        kept = await ChildProcess.kept()
        await check_etcd("etcd")
        if self._disk.list_directory(self._member.directory):
            await self._run(self._member, kept)
        else:
            if kept is not None:  # its directory was taken away
                await end_process(kept)
            await self._join(may_begin=True)

    def on_view(self, record: ShardRecord | None, alive: Set[str]) -> None:
        """The coordinator was read: run it, or not, as the shard's record says.

        Args:
            record: that this node has taken; None: none yet.
        """
        if record is None or self._changing is not None:
            return
        is_wanted = self._options.node in record.replicas
        if is_wanted != (self._child is not None):
            self._changing = asyncio.create_task(self._change(is_wanted))
        elif record.leader == self._options.node:
            self._move_leader_of_etcd((record.in_sync & alive) - {record.leader})

    def _move_leader_of_etcd(self, others: Set[str]) -> None:
        now = asyncio.get_running_loop().time()
        if others and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            peer_urls = {
                self._member.peer_urls[name] for name in others & self._member.peer_urls.keys()
            }
            self._changing = asyncio.create_task(self._lead_elsewhere(peer_urls))

    async def stop(self) -> None:
        """End the member's process."""
        await self._stop_changing()
        if self._child is not None:
            await self._child.stop()

    async def keep(self) -> None:
        """Leave it to the program that takes the place of this one."""
        await self._stop_changing()
        if self._child is not None:
            self._child.keep()

    async def _stop_changing(self) -> None:
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)

    async def _change(self, is_wanted: bool) -> None:
        try:
            if is_wanted:
                await self._join(may_begin=False)
            else:
                await self._leave()
        except (CoordinatorRefused, CoordinatorUnavailable, OSError) as error:
            log.error("etcd on this node: %s", error)
        finally:
            self._changing = None

    async def _lead_elsewhere(self, peer_urls: Set[str]) -> None:
        endpoints = EtcdEndpoints([self._member.client_url], tls=self._options.etcd_tls)
        try:
            async with aclosing(EtcdGateway(endpoints)) as own:
                await lead_elsewhere(own, peer_urls)
        except (CoordinatorRefused, CoordinatorUnavailable) as error:
            log.debug("etcd goes on to be led here: %s", error)
        finally:
            self._changing = None

    async def _join(self, *, may_begin: bool) -> None:
        async with aclosing(self._others()) as gateway:
            member = await self._joining(gateway, may_begin=may_begin)
        if member is not None:
            self._forget()
            await self._run(member)

    def _others(self) -> EtcdGateway:
        urls = [url for url in self._options.etcd if url != self._member.client_url]
        return EtcdGateway(EtcdEndpoints(urls, tls=self._options.etcd_tls))

    async def _joining(self, others: EtcdGateway, *, may_begin: bool) -> EtcdMember | None:
        """How this node's member begins: beside those that run, or together with all.

        A node that has lost its disk must not take a slow answer for none: it would begin as the member of the
        first start, which has been replaced since, or would vote again with an empty log.
        """
        for tries in range(1, JOIN_TRIES_MAX + 1):
            try:
                found = await found_members(others)
                may_begin = False
                # They take no other member before all of them have been connected for 5 s.
                return await joining(self._member, found, others, self._has_copy)
            except (CoordinatorRefused, CoordinatorUnavailable) as error:
                may_begin &= not isinstance(error, CoordinatorRefused)
                if may_begin and (
                    isinstance(error, NobodyListens)
                    or tries == SILENT_TRIES_MAX
                    or await self._others_wait()
                ):
                    return self._member
                if tries == JOIN_TRIES_MAX:
                    raise
                log.debug("etcd takes no other member yet: %s", error)
                await asyncio.sleep(JOIN_PAUSE_SECONDS)
        raise AssertionError("JOIN_TRIES_MAX is positive")

    async def _others_wait(self) -> bool:
        """For this one, as it is the first start of all of them: no majority has been there yet."""
        own = self._member.peer_urls[self._member.name]
        others = [url for url in self._options.etcd_peers if url != own]
        return await have_never_elected(others, self._options.etcd_tls)

    def _removed(self) -> None:
        log.warning("etcd on this node has ended: the other members have removed it")
        self._child = None  # `on_view` has it join anew, if the node still has a copy

    async def _has_copy(self) -> bool:
        async with aclosing(open_coordinator(self._options)) as coordinator:
            record = (await coordinator.read()).records.get(SHARD)
        return record is None or self._options.node in record.replicas

    async def _run(self, member: EtcdMember, kept: ChildProcess | None = None) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._options.listen[0], None, type=socket.SOCK_STREAM)
        authority = self._options.authority
        member = replace(
            member,
            listen_host=str(found[0][4][0]),
            tls=self._member.tls if authority is None else self._issued(authority),
            # Who has a certificate of the secret's authority can have one for any address.
            checks_addresses=authority is None,
        )
        child = EtcdChild("etcd", member, self._removed)
        await child.start(kept)
        self._child = child

    def _issued(self, authority: "SecretAuthority") -> TlsFiles:
        """What proves to other members, and to who asks this one, that it knows the secret."""
        folder = self._tls_folder
        own, issuer = folder / "own.pem", folder / "authority.pem"
        self._disk.make_directory(folder)
        for path, content in ((own, authority.own), (issuer, authority.certificate)):
            replace_file(self._disk, path, path.with_suffix(".new"), content)
        return TlsFiles(own, own, issuer)

    async def _leave(self) -> None:
        # First: of two members, the other one alone could not take this one out.
        async with aclosing(self._others()) as gateway:
            await remove_member(self._member.peer_urls[self._member.name], gateway)
        log.info("this node has left: its etcd ends, and forgets everything")
        child, self._child = self._child, None
        if child is not None:
            await child.stop()
        self._forget()

    def _forget(self) -> None:
        folder = self._member.directory
        for part in ("member/wal", "member/snap", "member", ""):
            self._disk.remove_tree(folder / part)


def _member(options: ClusterOptions, data: Path) -> EtcdMember:
    own = list(options.addresses).index(options.node)
    return EtcdMember(
        options.node,
        data / "etcd",
        options.etcd[own],
        "",  # known when it is run
        dict(zip(options.addresses, options.etcd_peers, strict=True)),
        options.name,
        None if options.tls is None else options.tls.files,
        lease_seconds=options.lease_seconds,
    )
