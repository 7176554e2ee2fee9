"""A front without a store, in the process of its leader: messages come when the test carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from support.known_definitions import known_definitions
from support.queue_samples import Node, Turns, no_hash
from support.waiting import until

from routelog.broker.sessions.definition_feed import DefinitionFeed, FedDefinitions
from routelog.log_backend import NoLogStore, Octets, SystemClock, SystemDisk
from routelog.vhosts import (
    GlobalParameters,
    SessionMessage,
    UserDirectory,
    VhostDirectory,
    decode_session_message,
)


class FedFront:
    """The definitions of a front, and the way from the feed.

    Attributes:
        outbox_bytes: what the leader takes for unsent.
        failures: what could not be carried out.
    """

    def __init__(self) -> None:
        loop, turns = asyncio.get_running_loop(), Turns()
        logs = NoLogStore(SystemClock(), loop, SystemDisk(), Path(), 1024 * 1024, has_remote=False)
        writer = logs.metadata_writer
        self.vhosts = VhostDirectory(logs, writer, turns.scheduler, turns.call_later)
        self.users = UserDirectory(writer, no_hash)
        self.parameters = GlobalParameters(writer)
        self.failures: list[Exception] = []
        self.fed = FedDefinitions(self.vhosts, self.users, self.parameters, self.failures.append)
        self.outbox_bytes = 0
        self.told_failures: list[str] = []
        self._sent = bytearray()

    def begin(self, feed: DefinitionFeed, told: Callable[[], None] = lambda: None) -> None:
        """A session begins."""
        self._feed = feed
        feed.begin(self, self._write, lambda: self.outbox_bytes, told, self.told_failures.append)

    def cut(self) -> None:
        """The session is lost, with what is on its way."""
        self._feed.end(self)
        self._sent.clear()
        self.fed.session_lost()

    def _write(self, pieces: Sequence[Octets]) -> None:
        self._sent += b"".join(pieces)

    def messages(self) -> list[SessionMessage]:
        """Take what was sent, in full."""
        sent, self._sent = self._sent, bytearray()
        found, at = [], 0
        while (decoded := decode_session_message(sent, at, len(sent))) is not None:
            found.append(decoded[0])
            at += decoded[1]
        return found

    def carry(self) -> int:
        """Take what was sent, and carry it out; returns how many messages it was."""
        messages = self.messages()
        for message in messages:
            self.fed.received(message)
        return len(messages)

    async def follow(self, position: int) -> None:
        """Wait until the definitions are those of a position."""
        reached: list[bool] = []
        self.fed.when_applied(position, lambda: reached.append(True))
        await until(lambda: self.carry() < 0 or reached)

    def known(self) -> dict[str, object]:
        """All that it knows."""
        return known_definitions(self.vhosts, self.users, self.parameters)


async def stored(node: Node) -> dict[str, object]:
    """What a start would find in the store of a node."""
    started = Node(node.logs, node.writer, node.turns)
    await started.definitions.load()
    return known_definitions(started.vhosts, started.users, started.parameters)
