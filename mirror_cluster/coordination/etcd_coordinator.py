"""The coordinator of several nodes: etcd, read several times a second.

Keys, below a prefix of the cluster's own::

    PREFIX/shards/0        the shard's record (`ShardRecord.encode`)
    PREFIX/nodes/NAME      a node that is alive, as JSON; goes with the node's lease
    PREFIX/commands/NAME   an operator's command, as JSON, until the node takes it; goes with a lease

Nothing is watched. A watch falls silent when its etcd hangs or is cut off from the others, and has to be
resumed behind what was compacted; a linearizable read of these few keys fails instead, and the next endpoint
is asked.
"""

from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    NodeCommand,
    NodeEntry,
    NodeNameTaken,
)
from routelog.mirror_cluster.coordination.etcd_gateway import (
    EtcdGateway,
    decoded,
    encoded,
    from_json,
)
from routelog.mirror_cluster.protocol.shard_record import BadRecord, ShardRecord, decode_record

_T = TypeVar("_T")

KEYS_MAX = 10_000  # nodes and shards of a cluster: more is no cluster of ours


class _KeyValue(msgspec.Struct):
    key: str
    value: str = ""
    mod_revision: int = 0


class _Header(msgspec.Struct):
    revision: int = 0


class _Range(msgspec.Struct):
    header: _Header
    kvs: list[_KeyValue] = []
    more: bool = False


class _Transaction(msgspec.Struct):
    header: _Header
    succeeded: bool = False


class _Lease(msgspec.Struct):
    ID: int = 0
    TTL: int = 0


class _Renewal(msgspec.Struct):
    result: _Lease


class EtcdCoordinator:
    """Keeps shard records and nodes' leases in etcd.

    Every method may raise `CoordinatorUnavailable` and `CoordinatorRefused`.

    Args:
        gateway: closed with the coordinator.
        prefix: `/routelog/NAME` of the cluster.
        lease_seconds: whole seconds; etcd gives more when its own election timeout asks for it.
    """

    def __init__(self, gateway: EtcdGateway, prefix: str, lease_seconds: int) -> None:
        self._gateway = gateway
        self._prefix = prefix.rstrip("/") + "/"
        self._lease_seconds = lease_seconds
        self._lease = 0

    async def read(self) -> ClusterView:
        """Everything, as of some moment after the call began (a linearizable read)."""
        start = self._prefix.encode()
        found = await self._range(start, _behind(start))
        if found.more:
            raise CoordinatorRefused(f"more than {KEYS_MAX} keys below {self._prefix}")
        records, nodes, commands = {}, {}, {}
        for each in found.kvs:
            kind, _, name = decoded(each.key)[len(start) :].decode().partition("/")
            if kind == "shards":
                record = _record(each)
                records[record.shard] = record
            elif kind == "nodes":
                nodes[name] = _stored(each, NodeEntry)
            elif kind == "commands":
                command = _stored(each, NodeCommand)
                commands[name] = replace(command, revision=each.mod_revision)
        return ClusterView(found.header.revision, records, nodes, commands)

    async def propose(
        self, record: ShardRecord, seen: ShardRecord | None = None
    ) -> ShardRecord | None:
        """Set a shard's record if it is still the one that was seen; None: if there is none.

        Revisions come again when etcd is set back to an older state, so the value is compared, too.

        Returns:
            The record with its new revision; None: another one is there.
        """
        done = await self._set(
            f"shards/{record.shard}",
            record.encode(),
            expected_revision=0 if seen is None else seen.revision,
            expected_value=None if seen is None else seen.encode(),
        )
        if not done.succeeded:
            return None
        return replace(record, revision=done.header.revision)

    async def command(self, command: NodeCommand, seconds: int) -> NodeCommand | None:
        """Leave a command for its node; it goes by itself after that time.

        Returns:
            The command with its revision; None: another one waits for the node.
        """
        value, lease = msgspec.json.encode(command), await self._grant(seconds)
        key = f"commands/{command.node}"
        done = await self._set(key, value, expected_revision=0, lease=lease.ID)
        if not done.succeeded:
            return None  # and the lease ends by itself, as in `register`
        return replace(command, revision=done.header.revision)

    async def take(self, command: NodeCommand) -> bool:
        """Take a command away; False: it is gone."""
        key = f"commands/{command.node}"
        done = await self._change(key, command.revision, "request_delete_range", {})
        return done.succeeded

    async def register(self, entry: NodeEntry) -> float:
        """Take a lease and list the node until it ends, in the place of an earlier process on the same data.

        Returns:
            How long the lease lasts, in seconds: at least what was asked for.

        Raises:
            NodeNameTaken: a process on other data holds the name; its lease may be ending.
        """
        key = f"nodes/{entry.node}"
        there = await self._range((self._prefix + key).encode())
        if any(_stored(each, NodeEntry).incarnation != entry.incarnation for each in there.kvs):
            raise NodeNameTaken(entry.node)
        revision = there.kvs[0].mod_revision if there.kvs else 0
        granted = await self._grant(self._lease_seconds)
        value = msgspec.json.encode(entry)
        done = await self._set(key, value, expected_revision=revision, lease=granted.ID)
        if not done.succeeded:
            # Perhaps by our own hand: an endpoint that answers too late may have carried it out. So the lease
            # is left to end by itself: an entry that has it is found next time.
            raise NodeNameTaken(entry.node)
        self._lease = granted.ID
        return float(granted.TTL)

    async def renew(self) -> bool:
        """Renew the lease; False: it has ended, register again."""
        answer = await self._gateway.request("lease/keepalive", {"ID": self._lease})
        return from_json(answer, _Renewal).result.TTL > 0

    async def leave(self) -> None:
        """Give the lease up: the node is gone at once."""
        if self._lease:
            await self._revoke(self._lease)
            self._lease = 0

    async def aclose(self) -> None:
        """Close connections; the lease runs out by itself."""
        await self._gateway.aclose()

    async def _range(self, key: bytes, end: bytes = b"") -> _Range:
        body = {"key": encoded(key), "range_end": encoded(end), "limit": KEYS_MAX}
        return from_json(await self._gateway.request("kv/range", body), _Range)

    async def _revoke(self, lease: int) -> None:
        await self._gateway.request("lease/revoke", {"ID": lease})

    async def _grant(self, seconds: int) -> _Lease:
        body = {"TTL": seconds, "ID": 0}  # etcd chooses a number that nobody has
        return from_json(await self._gateway.request("lease/grant", body), _Lease)

    async def _set(
        self,
        name: str,
        value: bytes,
        *,
        expected_revision: int,
        expected_value: bytes | None = None,
        lease: int = 0,
    ) -> _Transaction:
        put = {"value": encoded(value), "lease": lease}
        return await self._change(name, expected_revision, "request_put", put, expected_value)

    async def _change(
        self,
        name: str,
        expected_revision: int,
        request: str,
        more: dict[str, Any],
        expected_value: bytes | None = None,
    ) -> _Transaction:
        key = encoded((self._prefix + name).encode())
        same = {"key": key, "result": "EQUAL"}
        compared = [{**same, "target": "MOD", "mod_revision": expected_revision}]
        if expected_value is not None:
            compared.append({**same, "target": "VALUE", "value": encoded(expected_value)})
        body = {"compare": compared, "success": [{request: {"key": key, **more}}]}
        return from_json(await self._gateway.request("kv/txn", body), _Transaction)


def _record(found: _KeyValue) -> ShardRecord:
    try:
        return decode_record(decoded(found.value), found.mod_revision)
    except BadRecord as error:
        raise _unreadable(found, error) from None


def _stored(found: _KeyValue, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(decoded(found.value), type=kind)
    except msgspec.DecodeError as error:
        raise _unreadable(found, error) from None


def _unreadable(found: _KeyValue, error: Exception) -> CoordinatorRefused:
    return CoordinatorRefused(f"{decoded(found.key).decode()} cannot be read: {error}")


def _behind(prefix: bytes) -> bytes:
    """The first key that does not begin with a prefix that ends with `/`."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))
