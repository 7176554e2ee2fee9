"""An etcd that the broker starts, watches over and ends: a cluster of three needs no service of its own.

The child is Debian's or the operator's own binary. It has a directory and two ports of its own, and ends with
the broker, even when that is killed; a broker that starts itself again goes on with it, so that no vote is
missing meanwhile. When it ends by itself it is started again.

Source:
    https://etcd.io/docs/v3.5/op-guide/configuration/
"""

import asyncio
import logging
import re
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import msgspec

from routelog.mirror_cluster.coordination.child_process import ChildProcess
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdGateway, EtcdTls, is_refusal
from routelog.mirror_cluster.node_tls import TlsFiles

log = logging.getLogger(__name__)

OLDEST = (3, 4, 0)  # of Debian 12
ADVISED = (3, 5, 33)  # 3.4 had its last release; 3.5.0 to 3.5.2 could corrupt data

RESTART_SECONDS_MIN, RESTART_SECONDS_MAX = 0.5, 10.0
PEER_SECONDS_MAX = 1.0  # as of any request
STOP_SECONDS_MAX = 5.0  # then it is killed: its log survives that
# The journal syncs on the same disk: with etcd's defaults, 100 and 1,000 ms, a slow one would cause elections.
# No lease is shorter than 1.5 election timeouts, in whole seconds: this is the longest that allows each lease.
ELECTION_LEASES, ELECTION_SECONDS_MAX = 0.6, 5.0  # as etcd advises where it is slowest
HEARTBEATS = 8  # of one election timeout
_REMOVED = 0  # exit status of a member that has been removed; a signal ends it with another one


class EtcdMissing(Exception):
    """There is no etcd to start, or it is too old."""


@dataclass(frozen=True)
class EtcdMember:
    """One member of the managed etcd.

    Attributes:
        name: of this node.
        client_url: where brokers reach this member.
        listen_host: an IP address, as etcd takes no name there; for the ports of its URLs.
        peer_urls: of all members, by name; the same on each node.
        token: of the cluster: members of two clusters do not mix.
        joins: a cluster that runs already, as one of its members: see `joining`.
        lease_seconds: of the nodes.
        tls: for clients and for other members; None: anybody who reaches the ports may read and write.
        checks_addresses: another member has to connect from an address of its certificate, too.
    """

    name: str
    directory: Path
    client_url: str
    listen_host: str
    peer_urls: Mapping[str, str]
    token: str
    tls: TlsFiles | None = None
    checks_addresses: bool = True
    joins: bool = False
    lease_seconds: int = 2

    def arguments(self) -> list[str]:
        """Of the command line, without the binary."""
        own = self.peer_urls[self.name]
        members = ",".join(f"{name}={url}" for name, url in sorted(self.peer_urls.items()))
        seconds = min(ELECTION_LEASES * self.lease_seconds, ELECTION_SECONDS_MAX)
        election = round(1_000 * seconds)
        arguments = {
            "name": self.name,
            "data-dir": str(self.directory),
            "listen-client-urls": self._listening(self.client_url),
            "advertise-client-urls": self.client_url,
            "listen-peer-urls": self._listening(own),
            "initial-advertise-peer-urls": own,
            "initial-cluster": members,
            "initial-cluster-token": self.token,
            "initial-cluster-state": "existing" if self.joins else "new",  # read at the first start
            "heartbeat-interval": str(election // HEARTBEATS),
            "election-timeout": str(election),
            "pre-vote": "true",  # 3.4: else a member that was cut off deposes the leader when it is back
            "auto-compaction-mode": "revision",
            "auto-compaction-retention": "1000",  # nobody watches, so nobody reads old revisions
            "experimental-initial-corrupt-check": "true",
            "logger": "zap",
            "log-level": "error",
        }
        if self.tls is not None:
            for kind in ("", "peer-"):
                arguments[f"{kind}cert-file"] = str(self.tls.certificate)
                arguments[f"{kind}key-file"] = str(self.tls.key)
                arguments[f"{kind}trusted-ca-file"] = str(self.tls.authorities)
                arguments[f"{kind}client-cert-auth"] = "true"
            if not self.checks_addresses:
                arguments["experimental-peer-skip-client-san-verification"] = "true"
        return [f"--{name}={value}" for name, value in arguments.items()]

    def _listening(self, url: str) -> str:
        scheme, _, address = url.partition("://")
        host = f"[{self.listen_host}]" if ":" in self.listen_host else self.listen_host
        return f"{scheme}://{host}:{address.rpartition(':')[2]}"


async def check_etcd(binary: str) -> None:
    """Look at the version of a binary, a name on PATH or a path.

    Raises:
        EtcdMissing: it is not there, or older than 3.4.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            binary, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        raise EtcdMissing(f"{error}: install etcd, Debian's package etcd-server") from None
    told, _ = await process.communicate()
    found = re.search(rb"etcd Version: (\d+)\.(\d+)\.(\d+)", told)
    version = tuple(map(int, found.groups())) if found else (0, 0, 0)
    if version < OLDEST:
        raise EtcdMissing(f"{binary} is no etcd {'.'.join(map(str, OLDEST))} or later")
    if version < ADVISED:
        log.warning("%s has version %d.%d.%d; 3.5.33 or later is advised", binary, *version)


class FoundMember(
    msgspec.Struct, rename={"id": "ID", "peer_urls": "peerURLs", "client_urls": "clientURLs"}
):
    """A member of an etcd that runs, as it lists it."""

    id: str
    peer_urls: list[str] = []
    client_urls: list[str] = []  # none: it has never started


class _Members(msgspec.Struct):
    members: list[FoundMember] = []


async def found_members(others: EtcdGateway) -> list[FoundMember]:
    """The members of an etcd that runs.

    Raises:
        CoordinatorRefused, CoordinatorUnavailable: see `EtcdGateway.request`.
    """
    answer = await others.request("cluster/member/list", {})
    return msgspec.json.decode(answer, type=_Members).members


class _ListedMember(msgspec.Struct, rename={"client_urls": "clientURLs"}):
    client_urls: list[str] = []


async def have_never_elected(peer_urls: Sequence[str], tls: EtcdTls | None) -> bool:
    """Whether members that run wait for their first majority: to clients, they do not answer until then.

    Where nobody listens, none runs. A member publishes where clients reach it behind the first election, and
    others are told by the raft log: who has no such address of anybody has no log yet.
    """
    timeout = aiohttp.ClientTimeout(total=PEER_SECONDS_MAX)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        for url in peer_urls:
            try:
                async with http.get(
                    f"{url}/members", ssl=True if tls is None else tls.client
                ) as answer:
                    answer.raise_for_status()
                    found = msgspec.json.decode(await answer.read(), type=list[_ListedMember])
            except (TimeoutError, aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
                if not is_refusal(error):
                    return False
            else:
                # None at all: it has just started, and reads its log.
                if not found or any(each.client_urls for each in found):
                    return False
    return True


async def joining(
    member: EtcdMember,
    found: Sequence[FoundMember],
    others: EtcdGateway,
    is_wanted: Callable[[], Awaitable[bool]],
) -> EtcdMember | None:
    """How a member whose directory is empty joins an etcd that runs.

    One that was a member before has lost its disk: it would not know what it has voted for, so another member
    takes its place.

    Args:
        found: the members that there are.
        others: where they are asked; closed by the caller.
        is_wanted: asked where this is no member.

    Returns:
        None: it is not wanted.

    Raises:
        CoordinatorRefused, CoordinatorUnavailable: the others do not take it, for now.
    """
    own = member.peer_urls[member.name]
    before = next((each for each in found if own in each.peer_urls), None)
    if before is None and not await is_wanted():
        return None
    if before is not None and before.client_urls:
        log.warning("etcd's member on this node has lost its disk: another one takes its place")
        await others.request("cluster/member/remove", {"ID": before.id})
    if before is None or before.client_urls:
        await others.request("cluster/member/add", {"peerURLs": [own]})
    # Its members are those that there are, whoever else is configured, or not any more.
    names = {url: name for name, url in member.peer_urls.items()}
    peer_urls = {names.get(url, each.id): url for each in found for url in each.peer_urls}
    return replace(member, peer_urls=peer_urls | {member.name: own}, joins=True)


async def remove_member(peer_url: str, others: EtcdGateway) -> None:
    """Take a member out of the managed etcd, alive or not; one that is none stays so.

    Raises:
        CoordinatorRefused, CoordinatorUnavailable: the others do not let it go, for now.
    """
    for each in await found_members(others):
        if peer_url in each.peer_urls:
            await others.request("cluster/member/remove", {"ID": each.id})


class _Header(msgspec.Struct):
    member_id: str = ""


class _Status(msgspec.Struct):
    header: _Header = msgspec.field(default_factory=_Header)
    leader: str = ""


async def lead_elsewhere(own: EtcdGateway, peer_urls: Set[str]) -> None:
    """Have another member lead etcd, where this one does.

    Args:
        own: asks this member alone.
        peer_urls: of the members that may lead it.

    Raises:
        CoordinatorRefused, CoordinatorUnavailable: this member does not answer, or the other one cannot lead.
    """
    status = msgspec.json.decode(await own.request("maintenance/status", {}), type=_Status)
    if status.leader != status.header.member_id:
        return
    for each in await found_members(own):
        if not peer_urls.isdisjoint(each.peer_urls):
            await own.request("maintenance/transfer-leadership", {"targetID": each.id})
            return


class EtcdChild:
    """One etcd process after another, until it is stopped, or the other members have removed it.

    Args:
        binary: see `check_etcd`.
        on_removed: called when they have: what is in its directory is of no use any more.
    """

    def __init__(
        self, binary: str, member: EtcdMember, on_removed: Callable[[], None] = lambda: None
    ) -> None:
        self._command = [binary, *member.arguments()]
        self._on_removed = on_removed
        self._process: ChildProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process that runs; None between two of them."""
        process = self._process
        return None if process is None or process.status is not None else process.pid

    async def start(self, kept: ChildProcess | None = None) -> None:
        """Start it. Whether it can serve depends on the other members: ask it.

        Args:
            kept: by the program before this one: goes on, unless it was told something else than this one is.
        """
        if kept is not None and _of_a_run(kept.command) == _of_a_run(self._command):
            self._process = kept
        else:
            if kept is not None:
                await end_process(kept)
            await self._spawn()
        self._task = asyncio.create_task(self._supervise())

    def keep(self) -> None:
        """Leave it to the program that takes the place of this one."""
        if self._process is not None and self.pid is not None:
            self._process.keep()

    async def stop(self) -> None:
        """End the process of etcd."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        process, self._process = self._process, None
        if process is not None:
            await end_process(process)

    async def _spawn(self) -> None:
        self._process = await ChildProcess.spawn(self._command)
        self.starts += 1

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        pause = RESTART_SECONDS_MIN
        while True:
            process = self._process
            if process is None:
                return
            started = loop.time()
            async for line in process.errors:
                log.warning("etcd: %s", line.decode(errors="replace").rstrip())
            status = await process.wait()
            process.close()
            if status == _REMOVED:
                self._on_removed()
                return
            if loop.time() - started > RESTART_SECONDS_MAX:
                pause = RESTART_SECONDS_MIN
            log.error("etcd ended with status %d; the next starts in %.1f s", status, pause)
            pause = await self._spawn_behind(pause)

    async def _spawn_behind(self, pause: float) -> float:
        """Start the next one, however often that fails; returns the pause before the one after it."""
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, RESTART_SECONDS_MAX)
            try:
                await self._spawn()
            except OSError as error:
                # No memory, no file descriptor, or its package is being replaced.
                log.error("etcd does not start: %s; the next try is in %.1f s", error, pause)
            else:
                return pause


async def end_process(process: ChildProcess) -> None:
    """Have an etcd end in order, or at once when that takes too long."""
    process.signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.signal(signal.SIGKILL)
        await process.wait()
    process.close()


def _of_a_run(command: Sequence[str]) -> list[str]:
    """What counts at each start of a member, not only at its first."""
    return [each for each in command if not each.startswith("--initial-")]
