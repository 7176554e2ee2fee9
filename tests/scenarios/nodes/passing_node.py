"""A node that passes all its clients of HTTP on: run as a program, with TLS's certificate as argument.

It is told who leads by lines of standard input, `leader PROCESS PORT` or `nobody`, and prints where it
listens: `ready http=PORT https=PORT`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress

import uvloop
from scenarios.nodes.leading_broker import node_links

from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.listeners.http_listeners import HttpListeners
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.passing.passing import Passing
from routelog.broker.sockets.accepted_sockets import AcceptedSockets, SocketLimits
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.given_link import TakeConnection
from routelog.mirror_cluster.node.cluster_member import LeadingNode

HOST = "127.0.0.1"


class ToldLeaders:
    """See `ClusterMember`; who leads comes from outside."""

    def __init__(self) -> None:
        self.leader: LeadingNode | None = None
        self._links = node_links("passing")
        self._told: Callable[[], None] = lambda: None

    trouble = "nobody leads"

    def watch(self, changed: Callable[[], None]) -> None:
        self._told = changed

    async def connect(self, node: str, process: int, take: TakeConnection) -> None:
        await self._links.connect_client(node, process, take)

    def lead(self, line: str) -> None:
        self.leader = None
        if line.startswith("leader"):
            process, port = map(int, line.split()[1:])
            self._links.set_nodes({"leading": NodeEntry("leading", process, f"{HOST}:{port}", 1)})
            self.leader = LeadingNode("leading", process)
        self._told()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def note(event: str, **more: object) -> None:
    say(f"{event} {more}")


async def main(certificate: str) -> None:
    loop, leaders = asyncio.get_running_loop(), ToldLeaders()
    passing = Passing(leaders, 4.0, lambda: "")
    config = BrokerConfig(management_port=0, management_tls_port=0, tls_certificate=certificate)
    sockets = AcceptedSockets("HTTP", SocketLimits(4_096, 256), loop.time)
    listeners = HttpListeners(config, loop, sockets, CertificateRenewal(loop), note)
    listeners.serve = passing.serve
    await listeners.open(HOST)
    say(
        "ready http={} https={}".format(
            *(listeners.addresses[each][1] for each in ("http", "https"))
        )
    )
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        leaders.lead(line)
        say(f"told {line}")
    await listeners.close()
    await passing.aclose("it stops")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        uvloop.run(main(*sys.argv[1:]))
