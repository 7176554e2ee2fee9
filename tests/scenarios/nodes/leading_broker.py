"""A broker that takes clients of HTTP which other nodes of its cluster pass on: run as a program.

It prints `cluster port=PORT` before its ready line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from routelog.__main__ import main
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.sockets.accepted_sockets import AcceptedSockets, SocketLimits
from routelog.composition import Composition
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks

CLUSTER, SECRET = "orders", LinkSecurity(b"s" * 32)
doors_of_node = Composition.doors


def node_links(name: str) -> NodeLinks:
    """The connections of a node; nothing is replicated."""
    own = NodeEntry(name, os.getpid(), "", 1)
    sockets = AcceptedSockets("nodes", SocketLimits(64, 32), time.monotonic)
    return NodeLinks(CLUSTER, own, SECRET, lambda *_: None, lambda _: None, sockets)


@asynccontextmanager
async def doors(node: Composition, broker: Broker, address: BrokerAddress) -> AsyncIterator[None]:
    links = node_links("leading")
    links.take_client = broker.passed_door.take
    port = await links.listen("127.0.0.1", 0)
    sys.stdout.write(f"cluster port={port}\n")
    sys.stdout.flush()
    async with doors_of_node(node, broker, address):
        yield
    await links.aclose()


if __name__ == "__main__":
    Composition.doors = doors  # type: ignore[assignment, method-assign]
    main()
