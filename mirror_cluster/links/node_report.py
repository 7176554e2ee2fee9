"""What a node says of itself to an operator who asks it: one JSON object, then the end of the connection.

It is asked where etcd does not answer, so it says what the node itself knows.
"""

import asyncio
from functools import partial

import msgspec

from routelog.log_backend import random_key
from routelog.mirror_cluster.links.copy_stream import Stream, stream_over
from routelog.mirror_cluster.links.given_link import connect, connect_given
from routelog.mirror_cluster.links.introduction import Opening, Purpose
from routelog.mirror_cluster.node_tls import NodeTls

REPORT_BYTES_MAX = 65_536
REPORT_SECONDS_MAX = 5.0


class NodeReport(msgspec.Struct, frozen=True):
    """What a node knows.

    Attributes:
        takes_clients: it leads, and serves.
        trouble: why no client is taken by way of it, in words; empty: it takes clients, or knows who does.
        leader: the node by way of which it serves clients; empty: none.
        connected: other nodes that it is connected with.
        position: of the last block of its journal.
        record: the shard's record as it was read last, as the coordinator holds it; empty: never.
        revision: of that record.
    """

    node: str
    takes_clients: bool
    trouble: str
    leader: str
    connected: list[str]
    position: int
    record: bytes = b""
    revision: int = 0

    def told(self) -> str:
        """The report in words."""
        does = "takes clients" if self.takes_clients else self.trouble
        does = does or f"serves clients by way of {self.leader}"
        others = ", ".join(self.connected) or "no other node"
        return f"{does}; is connected with {others}; its journal ends at {self.position:,}"


def give_report(report: NodeReport, transport: asyncio.Transport, unread: bytes) -> None:
    """Answer over a connection that was given away."""
    _, writer = stream_over(transport, unread)
    writer.write(msgspec.json.encode(report))
    writer.close()


async def ask_node(
    cluster: str,
    operator: str,
    process: int,
    node: str,
    address: str,
    secret: bytes,
    tls: NodeTls | None,
) -> NodeReport:
    """Ask a node.

    Args:
        operator, process: who asks.

    Raises:
        OSError, TimeoutError: it does not answer.
        msgspec.DecodeError: its answer is none.
    """
    streams: list[Stream] = []
    opening = Opening(cluster, operator, node, process, Purpose.REPORT, random_key())
    reach = partial(connect, address, tls=tls)
    async with asyncio.timeout(REPORT_SECONDS_MAX):
        await connect_given(
            opening, secret, None, lambda *given: streams.append(stream_over(*given)), reach
        )
        reader, writer = streams[0]
        try:
            answer = bytearray()
            while len(answer) <= REPORT_BYTES_MAX and (more := await reader.read(REPORT_BYTES_MAX)):
                answer += more
        finally:
            writer.transport.abort()
    return msgspec.json.decode(answer, type=NodeReport)
