"""Direct reply-to: replies that go straight to the channel that asked, through no queue.

An address names the node of who waits, as nodes of a cluster have their own clients::

    amq.rabbitmq.reply-to.<node: 8 characters><22 random ones>.<22 random ones>==

So it is two words in Base64 as RabbitMQ's, which clients take apart.
"""

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Protocol

from routelog.log_backend import Clock, Records, random_name
from routelog.vhosts import Answer

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"
ADDRESS_PREFIX = b"amq.rabbitmq.reply-to."

_ADDRESS = re.compile(re.escape(ADDRESS_PREFIX) + rb"([\w-]{8})[\w-]{22}\.[\w-]{22}==")


class ReplyConsumer(Protocol):
    """Takes replies."""

    def reply(self, records: Records) -> None:
        """Deliver a reply; it is settled."""


class ReplyRun(Protocol):
    """Published messages."""

    def parts(self, selections: list[list[int]], attributes: int, time: int) -> list[Records]:
        """Records of some messages, by index, for each selection."""


class OtherNodes(Protocol):
    """The way to clients of other nodes."""

    def takes_replies(self, token: bytes) -> bool:
        """Whether a node may have clients that wait; unknown: it may."""

    def ask_whether_open(self, address: bytes) -> Answer[bool]:
        """Whether somebody may wait at an address of another node, from who knows the nodes."""

    def send_reply(self, token: bytes, address: bytes, records: Records) -> None:
        """Send a reply on; it is lost if nobody waits, or does not read."""


class DirectReplies:
    """Reply addresses: unguessable, and gone with their channel.

    Attributes:
        others: the way to other nodes; None: none has clients of its own.

    Args:
        node: the name of this node.
    """

    def __init__(self, node: str = "") -> None:
        self._token = node_token(node)
        self._consumers: dict[bytes, ReplyConsumer] = {}
        self.others: OtherNodes | None = None

    def open(self, consumer: ReplyConsumer) -> str:
        """A new address for a consumer."""
        words = self._token + f"{random_name()}.{random_name()}==".encode()
        address = ADDRESS_PREFIX + words
        self._consumers[address] = consumer
        return address.decode()

    def close(self, address: str) -> None:
        """Forget an address."""
        self._consumers.pop(address.encode(), None)

    def is_open(self, address: bytes) -> bool:
        """Whether somebody waits for replies at an address, as far as this node knows."""
        if address in self._consumers:
            return True
        token, others = self._token_elsewhere(address), self.others
        return token is not None and others is not None and others.takes_replies(token)

    def asked(self, address: bytes) -> Answer[bool]:
        """As `is_open`, from who knows it."""
        if self.others is None or self._token_elsewhere(address) is None:
            return self.is_open(address)
        return self.others.ask_whether_open(address)

    def send(self, address: bytes, run: ReplyRun, indexes: list[int], clock: Clock) -> None:
        """Deliver messages of a run, by index, to an address; when it belongs to nobody, they are dropped."""
        if self.is_open(address):
            self.pass_on(address, run.parts([indexes], 0, clock.now())[0])

    def pass_on(self, address: bytes, records: Records) -> None:
        """Deliver a reply, here or at another node."""
        token = self._token_elsewhere(address)
        if token is None:
            self.deliver(address, records)
        elif self.others is not None:
            self.others.send_reply(token, address, records)

    def deliver(self, address: bytes, records: Records) -> None:
        """Deliver a reply to who waits here."""
        consumer = self._consumers.get(address)
        if consumer is not None:
            consumer.reply(records)

    def _token_elsewhere(self, address: bytes) -> bytes | None:
        # Of the node that an address names; None: this one, or it is no address.
        token = token_of(address)
        return None if token == self._token else token


def node_token(node: str) -> bytes:
    """What stands for a node in the addresses of its clients."""
    return urlsafe_b64encode(blake2b(node.encode(), digest_size=6).digest())


def token_of(address: bytes) -> bytes | None:
    """What stands for the node in an address; None: it is none."""
    if not address.startswith(ADDRESS_PREFIX):
        return None
    parts = _ADDRESS.fullmatch(address)
    return None if parts is None else parts[1]
