"""A broker that takes clients which other nodes of its cluster pass on: run as a program.

It prints `cluster port=PORT` before its ready line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from routelog.amqp_front import __main__ as program
from routelog.amqp_front.process.broker import Broker, BrokerAddress
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks

CLUSTER, SECRET = "orders", LinkSecurity(b"s" * 32)
management = program._management


def node_links(name: str) -> NodeLinks:
    """The connections of a node; nothing is replicated."""
    own = NodeEntry(name, os.getpid(), "", 1)
    return NodeLinks(CLUSTER, own, SECRET, lambda *_: None, lambda _: None)


@asynccontextmanager
async def doors(
    broker: Broker, address: BrokerAddress, member: Any, door: Any
) -> AsyncIterator[None]:
    links = node_links("leading")
    links.take_client = broker.passed_doors.take
    port = await links.listen("127.0.0.1", 0)
    sys.stdout.write(f"cluster port={port}\n")
    sys.stdout.flush()
    async with management(broker, address, member, door):
        yield
    await links.aclose()


if __name__ == "__main__":
    program._management = doors
    program.main()
