"""The feed of definitions, of a leader to fronts that have no journal: all that there are, and each change.

Each session begins with a snapshot. Of what a front has from the session before, it carries out the difference;
changes behind it as they come.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

import msgspec

from routelog.log_backend import Change, Lane, MetadataStore, Octets, in_turns, pause
from routelog.vhosts import (
    SESSION_OUTBOX_BYTES_MAX,
    AppliedDefinitions,
    BadSessionMessage,
    DefinitionState,
    GlobalParameters,
    SessionKind,
    SessionMessage,
    UserDirectory,
    VhostDirectory,
    definition_difference,
    session_message_pieces,
    session_value,
)

log = logging.getLogger(__name__)

PAGE_RECORDS = 128  # of a message: some 20 KB, read and encoded in 0.2 ms
FULL_SECONDS = 0.01  # between two looks at a front that does not read
NOTHING_APPLIED = -1  # the first position of a feed is 0


@dataclass(frozen=True, slots=True)
class _Fed:
    write: Callable[[Sequence[Octets]], None]
    telling: "asyncio.Task[None]"  # the snapshot


class DefinitionFeed:
    """Feeds the sessions of a leader, each from its beginning to its end.

    A snapshot is read page by page, while changes go on: what is told of a key last is what it has. So the
    end of a snapshot is the state at one position.

    Attributes:
        position: how many groups of changes were told of; fronts say which they have applied.

    Args:
        store: of the metadata; only `changed` tells that definitions in it have changed.
        prefixes: of the keys of definitions, in an order in which they can be carried out.
    """

    def __init__(self, store: MetadataStore, prefixes: tuple[bytes, ...]) -> None:
        self.position = 0
        self._store = store
        self._prefixes = prefixes
        self._fed: dict[Hashable, _Fed] = {}

    def begin(
        self,
        session: Hashable,
        write: Callable[[Sequence[Octets]], None],
        outbox_bytes: Callable[[], int],
        told: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Tell a session all that there is, and what changes from here on.

        Args:
            write: sends pieces of messages.
            outbox_bytes: how much is unsent: while it is much, the snapshot waits.
            told: called when all has been told; behind that there are changes alone.
            failed: called with why it cannot be told.
        """

        async def tell() -> None:
            try:
                await self._tell_all(write, outbox_bytes, told)
            except Exception as error:
                log.exception("a session is not told of all definitions")
                failed(str(error))

        telling = asyncio.ensure_future(tell())
        self._fed[session] = _Fed(write, telling)

    def end(self, session: Hashable) -> None:
        """A session is over."""
        self._fed.pop(session).telling.cancel()

    def changed(self, changes: Sequence[Change]) -> None:
        """Tell all sessions of changes that are durable, and that the store has."""
        told: list[bytes | None] = []
        for change in changes:
            if change.key.startswith(self._prefixes):
                told += change.key, change.value
        if told:
            self.position += 1
            pieces = self._message(SessionKind.CHANGES, told)
            for each in self._fed.values():
                each.write(pieces)

    async def _tell_all(
        self,
        write: Callable[[Sequence[Octets]], None],
        outbox_bytes: Callable[[], int],
        told_all: Callable[[], None],
    ) -> None:
        for prefix in self._prefixes:
            start = b""
            # No turn of the loop may lie between the reading of a page and its sending.
            while page := list(islice(self._store.scan(prefix, start, PAGE_RECORDS), PAGE_RECORDS)):
                told: list[bytes | None] = []
                for key, entry in page:
                    told += key, entry.value
                write(self._message(SessionKind.RECORDS, told))
                start = page[-1][0] + b"\x00"
                await pause(Lane.JOBS)
                while outbox_bytes() > SESSION_OUTBOX_BYTES_MAX:  # noqa: ASYNC110 -- a rare case
                    await asyncio.sleep(FULL_SECONDS)
        write(session_message_pieces(SessionMessage(SessionKind.SNAPSHOT, number=self.position)))
        told_all()

    def _message(self, kind: SessionKind, told: Sequence[bytes | None]) -> list[Octets]:
        content = msgspec.msgpack.encode(told)
        return session_message_pieces(SessionMessage(kind, number=self.position, content=content))


class FedDefinitions:
    """The definitions of a front, as the leader feeds them: it says how far they have come.

    Args:
        failed: told of what cannot be carried out; nothing is any more.
    """

    def __init__(
        self,
        vhosts: VhostDirectory,
        users: UserDirectory,
        parameters: GlobalParameters,
        failed: Callable[[Exception], None],
    ) -> None:
        self._definitions = AppliedDefinitions(vhosts, users, parameters, self._value_of)
        self._prefixes = self._definitions.prefixes
        self._known = self._empty()
        self._failed = failed
        self._has_failed = False
        self._applied = NOTHING_APPLIED
        self._awaited: list[tuple[int, Callable[[], None]]] = []
        # The snapshot that comes, with what has changed meanwhile; None: it is over
        self._arriving: DefinitionState | None = self._empty()
        # What is to be carried out: a snapshot, or changes; and the position that is reached then
        self._work: deque[tuple[DefinitionState | Sequence[Change], int]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._sessions = 0

    def _empty(self) -> DefinitionState:
        return DefinitionState(self._prefixes)

    def _value_of(self, key: bytes) -> bytes | None:
        return self._known.get(key)

    def session_lost(self) -> None:
        """The next session begins with a snapshot."""
        self._sessions += 1
        self._applied = NOTHING_APPLIED
        self._arriving = self._empty()
        self._work.clear()
        self._awaited.clear()

    def when_applied(self, position: int, done: Callable[[], None]) -> None:
        """Call a function when they are applied up to a position of this session, if it lives so long."""
        if position <= self._applied:
            done()
        else:
            self._awaited.append((position, done))

    def received(self, message: SessionMessage) -> None:
        """Take a message of the feed.

        Raises:
            BadSessionMessage: the leader's fault: end the session.
        """
        if message.kind is SessionKind.SNAPSHOT:
            if self._arriving is None:
                self._refuse(message)
            arrived, self._arriving = self._arriving, None
            self._add(arrived, message.number)
            return
        told = session_value(message.content, list[bytes | None])
        keys = told[::2]
        if len(told) % 2 or not all(key and key.startswith(self._prefixes) for key in keys):
            self._refuse(message)
        changes = [
            Change(key or b"", value) for key, value in zip(told[::2], told[1::2], strict=True)
        ]
        if self._arriving is not None:
            self._arriving.keep(changes)
        elif message.kind is SessionKind.RECORDS:
            self._refuse(message)
        else:
            self._add(changes, message.number)

    def _refuse(self, message: SessionMessage) -> NoReturn:
        raise BadSessionMessage(f"{message.kind.name} {message.number} in a feed")

    def _add(self, work: DefinitionState | Sequence[Change], position: int) -> None:
        if self._has_failed:
            return
        if self._working is None and not isinstance(work, DefinitionState):
            self._carry_out(work)
            self._reached(position)
            return
        self._work.append((work, position))
        if self._working is None:
            self._working = asyncio.ensure_future(self._carry_on())

    async def _carry_on(self) -> None:
        try:
            while self._work and not self._has_failed:
                session = self._sessions
                work, position = self._work.popleft()
                if isinstance(work, DefinitionState):
                    steps: Iterator[Sequence[Change]] = definition_difference(self._known, work)
                else:
                    steps = iter((work,))
                async for changes in in_turns(steps, Lane.STARTS):
                    if session != self._sessions or self._has_failed:
                        break
                    self._carry_out(changes)
                else:
                    self._reached(position)
        except Exception as error:
            self._fail(error)
        finally:
            self._working = None

    def _fail(self, error: Exception) -> None:
        self._has_failed = True  # memory differs from the leader's: nothing is routed by it
        log.error("definitions of the leader cannot be carried out", exc_info=error)
        self._failed(error)

    def _carry_out(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        try:
            self._definitions.apply(changes)
        except Exception as error:
            self._fail(error)
            return
        self._known.keep(changes)

    def _reached(self, position: int) -> None:
        if self._has_failed:
            return
        self._applied = position
        due = [done for wanted, done in self._awaited if wanted <= position]
        self._awaited = [each for each in self._awaited if each[0] > position]
        for done in due:
            done()
