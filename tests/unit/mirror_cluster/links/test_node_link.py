"""One link on the event loop of a node, which is uvloop's."""

import asyncio
import select
import socket

import uvloop
from support.waiting import WAIT_SECONDS

from routelog.mirror_cluster.links.introduction import Introduced, Purpose
from routelog.mirror_cluster.links.node_link import NodeLink
from routelog.mirror_cluster.protocol.message_format import encode_message
from routelog.mirror_cluster.protocol.messages import Leave, Message

MESSAGE = Leave(0, 1, 2)
FRAME = b"\1\0\0\0f"


class AnybodyIntroduced:
    """An introduction that believes all."""

    def opened(self, frame: bytes) -> bytes:
        return b""

    def proved(self, frame: bytes) -> tuple[bytes, Introduced]:
        return b"", Introduced("b", 1, Purpose.REPLICATION, 1)


class Owner:
    """Who is told what comes."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    def introduced(self, link: NodeLink, other: Introduced) -> None:
        self.known.set()

    def received(self, link: NodeLink, message: Message) -> None:
        self.messages.put_nowait(message)

    def ended(self, link: NodeLink) -> None:
        """Nothing waits for that."""


async def send_and_look() -> bool:
    """Whether the other end can read a message in the turn in which it is sent."""
    own, other = socket.socketpair()
    owner = Owner()
    link = NodeLink(AnybodyIntroduced(), owner, "there")
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=own)
        other.sendall(2 * FRAME + encode_message(MESSAGE))
        await owner.known.wait()
        assert await owner.messages.get() == MESSAGE  # it came with the introduction
    link.send(MESSAGE)
    readable, _, _ = select.select([other], [], [], 0)
    link.close()
    other.close()
    return bool(readable)


def test_a_message_is_with_the_system_before_its_turn_ends() -> None:
    assert uvloop.run(send_and_look())
