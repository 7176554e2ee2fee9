"""What a node promised about its topology: after a crash it is as some of the first changes have left it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from crash.disks.transaction_promise import PromiseBroken

from routelog.log_backend import Change, MetadataStore, MetadataWriter

# The log store also writes these by itself, behind the journal.
OF_THE_STORE = (b"tombstones/", b"cursors/")


class TopologyPromise:
    """The changes that were submitted, in order, and how many of them were answered."""

    def __init__(self) -> None:
        self._before: dict[bytes, bytes] = {}
        self._submitted: list[Sequence[Change]] = []
        self._answered = 0

    def copy(self) -> TopologyPromise:
        """The promise of this moment."""
        copied = TopologyPromise()
        copied._before = self._before.copy()
        copied._answered = self._answered  # first: what is answered was submitted before
        copied._submitted = self._submitted.copy()
        return copied

    def follow(self, writer: MetadataWriter) -> None:
        """Hear of all that is submitted from now on."""
        submit = writer.submit

        def watched(changes: Sequence[Change]) -> asyncio.Future[int]:
            self._submitted.append([])  # first: it may be durable before the call returns
            self._submitted[-1] = list(changes)
            answer = submit(changes)
            answer.add_done_callback(partial(self._done, len(self._submitted)))
            return answer

        writer.submit = watched  # type: ignore[method-assign]

    def _done(self, count: int, answer: asyncio.Future[int]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._answered = max(self._answered, count)

    def check(self, store: MetadataStore) -> None:
        """Hold a node that has recovered its metadata to this, and go on with what it found.

        Raises:
            PromiseBroken: no beginning of what was submitted, with all that was answered, leaves this.
        """
        keys = {*self._before, *(each.key for changes in self._submitted for each in changes)}
        entries = {key: store.get(key) for key in keys if not key.startswith(OF_THE_STORE)}
        found = {key: entry.value for key, entry in entries.items() if entry is not None}
        state = self._before
        states = [state]
        for changes in self._submitted:
            state = dict(state)
            for each in changes:
                if each.key.startswith(OF_THE_STORE):
                    continue
                if each.value is None:
                    state.pop(each.key, None)
                else:
                    state[each.key] = each.value
            states.append(state)
        if found not in states[self._answered :]:
            of = f"{self._answered} of {len(self._submitted)} changes were answered"
            raise PromiseBroken(f"the topology is none of those that were submitted; {of}")
        self._before, self._submitted, self._answered = found, [], 0
