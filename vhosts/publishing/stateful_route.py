"""Messages on their way through exchanges that remember: what is let through, and what is noted of it."""

from collections.abc import Callable, Mapping, Sequence

from routelog.exchanges import Message, Route, RoutingTable
from routelog.log_backend import NOTHING, LogStore, Receipt, Records
from routelog.vhosts.errors import TooLargeToRemember
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.publishing.exchange_memory import ExchangeMemory, Note

TOGETHER_BYTES_MAX = 1 << 30  # of one block, whose length has 32 bits


class StatefulRoute:
    """The messages of one publish, known by their places in it.

    Ends with `store` or `remember`, in the same turn or in one that finds it still current.

    Attributes:
        duplicates: places of those that some exchange did not let through.
        needed: what they wait for: what they are duplicates of may have been published just now, by somebody
            else.

    Args:
        memories: by the names of the exchanges.
        undecided: keys by exchange of other passages, which are stored together with these or not at all, so
            that what has one of them is a duplicate; None: what becomes of each is known before the next.
    """

    def __init__(
        self,
        routing: RoutingTable,
        memories: Mapping[str, ExchangeMemory],
        logs: LogStore,
        undecided: set[tuple[str, bytes]] | None = None,
    ) -> None:
        self._routing = routing
        self._memories = memories
        self._logs = logs
        self._noted: dict[str, tuple[ExchangeMemory, list[tuple[int, Note]]]] = {}
        self._is_planned = undecided is not None
        self._undecided: set[tuple[str, bytes]] = set() if undecided is None else undecided
        self.duplicates: set[int] = set()
        self.needed: Receipt = NOTHING

    def route(
        self, place: int, exchange: str, keys: Sequence[bytes], message: Message
    ) -> Route | None:
        """The queues that a message reaches under any of its keys.

        Returns:
            None when that hangs on what becomes of one before it in this passage: `store` this one first.

        Raises:
            ExchangeNotFound: the exchange is not there.
            JournalFailed: it is a duplicate, and the disk failed before.
        """
        met: dict[str, Note | None] = {}
        stopped: set[str] = set()
        undecided = False

        def visit(name: str) -> bool:
            nonlocal undecided
            memory = self._memories[name]
            if name not in met:
                note = met[name] = memory.note(message)
                if note is not None and memory.is_filter:
                    hangs = (name, note.key) in self._undecided
                    undecided = undecided or hangs
                    if hangs or memory.knows(note):
                        stopped.add(name)
                        self.needed = self.needed.joined(memory.needed)
            return name not in stopped

        names = self._routing.route_all(exchange, keys, message, visit)
        if undecided and not self._is_planned:
            return None
        for name, note in met.items():
            if note is not None and name not in stopped:
                self._note(place, name, note, is_routed=bool(names))
        if stopped:
            self._logs.journal.check()  # what it is a duplicate of may be lost
            self.duplicates.add(place)
        return names

    def _note(self, place: int, name: str, note: Note, *, is_routed: bool) -> None:
        memory = self._memories[name]
        self._noted.setdefault(name, (memory, []))[1].append((place, note))
        if memory.is_filter and is_routed:  # or it will not be stored
            self._undecided.add((name, note.key))

    def is_current(self) -> bool:
        """Whether it would let through the same in this turn: its exchanges are there, and know none of it."""
        for name, (memory, notes) in self._noted.items():
            if self._memories.get(name) is not memory:
                return False
            if memory.is_filter and any(memory.knows(note) for _, note in notes):
                return False
        return True

    def store(
        self,
        batches: Sequence[tuple[Records, Sequence[Recipient], Sequence[int]]],
        appending: Appending,
        asked: bool,
        records: Callable[[list[int]], Records],
    ) -> Receipt:
        """End the passage: its messages and what is remembered of them survive a crash whole or not at all.

        Args:
            batches: records, the queues that get them, and their places; no queue is in two of them.
            asked, records: see `remember`.

        Returns:
            What the confirm of its messages waits for.

        Raises:
            TooLargeToRemember: that is more than one block can hold.
            JournalFailed: the disk failed before.
        """
        size = sum(each.batch_bytes * len(queues) for each, queues, _ in batches)
        if size > TOGETHER_BYTES_MAX:
            raise TooLargeToRemember(size, TOGETHER_BYTES_MAX)
        needed: Receipt = NOTHING
        stored: dict[int, bool] = {}
        with self._logs.together():
            for batch in batches:
                receipt: Receipt = appending.append((batch,), True)
                needed = needed.joined(receipt)
                for place in batch[2]:
                    stored[place] = stored.get(place, False) or receipt is not NOTHING
            for place in appending.refused:
                stored.pop(place, None)
            remembered = self.remember(stored, asked, records, needed)
        for remember in remembered:
            remember()
        whole: Receipt = needed.joined(self.needed)
        return whole

    def remember(
        self,
        stored: Mapping[int, bool],
        asked: bool,
        records: Callable[[list[int]], Records],
        needed: Receipt,
    ) -> list[Callable[[], None]]:
        """End the passage: what came by is remembered, when all is called that this returns, in the same turn.

        A filter remembers what all queues of its route have taken; the others are as if they had never come.

        Args:
            stored: by place, whether what they have taken is in the journal.
            asked: their publisher asked that they survive a restart.
            records: makes a batch of the messages at some places.
            needed: what they wait for.
        """
        remembered: list[Callable[[], None]] = []
        for memory, notes in self._noted.values():
            memory.needed = memory.needed.joined(needed)
            if not memory.is_filter:
                remembered.append(memory.remember(notes, records, persistent=asked))
                continue
            for persistent in (True, False):
                kept = [each for each in notes if stored.get(each[0]) is persistent]
                if kept:
                    remembered.append(memory.remember(kept, records, persistent=persistent))
        return remembered
