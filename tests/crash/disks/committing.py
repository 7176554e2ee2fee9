"""Transactions of a node: appends and settlements that a crash takes all of, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain

from crash.disks.node import LIMITS, Node
from crash.disks.transaction_promise import Ranges, TransactionPromise
from unit.log_backend.log_records import records

from routelog.log_backend import (
    LogTransaction,
    SettledEntries,
    SettledPart,
    Settlement,
    SystemClock,
)


def commit(node: Node, appends: Mapping[str, int], settles: Ranges, size: int = 100) -> int:
    """Append and settle in one transaction; returns the journal position.

    Args:
        appends: how many records, by the name of the queue.
        settles: [first, end) offsets, by the name of the queue.
    """
    committing = _Committing(node, settles)

    def append() -> None:
        for name, count in appends.items():
            committing.append(name, count, size)

    with committing.all_or_nothing():
        position = committing.go_on(append)
    committing.end()
    return position


async def commit_in_turns(
    node: Node, appends: Mapping[str, int], settles: Ranges, size: int = 100
) -> int:
    """As `commit`; behind what each queue gets, others append to all of them, and there may be a flush."""
    committing = _Committing(node, settles)
    with committing.all_or_nothing():
        for name, count in appends.items():
            position = committing.go_on(partial(committing.append, name, count, size))
            committing.transaction.pause()
            for other in appends:
                node.append(other, 1, size, waited=False)
            await asyncio.sleep(2 * LIMITS.flush_seconds)
    committing.end()
    return position


class MadeToFail(Exception):
    """A fault of the broker in the midst of a transaction."""


async def fail_in_turns(
    node: Node, appends: Mapping[str, int], settles: Ranges, size: int = 100
) -> None:
    """As `commit_in_turns`, but its last step fails: no promise speaks of it, so nothing may be found."""
    transaction = node.vhost.hosted.logs.transaction()
    batch = records([b"of a failed one".ljust(size)], time=SystemClock().now())
    names = list(appends)

    def append(name: str) -> None:
        for _ in range(appends[name]):
            node.log(name).append(batch, waited=True)
        if name == names[-1]:
            raise MadeToFail

    entries = SettledEntries(
        SettledPart(node.log(name).number, Settlement(0, [each])) for name, each in settles.items()
    )
    with suppress(MadeToFail), _taken_back_by_errors(transaction):
        for name in names:
            transaction.append(partial(append, name), [entries] if name == names[0] else ())
            transaction.pause()
            for other in names:
                node.append(other, 1, size, waited=False)
            await asyncio.sleep(2 * LIMITS.flush_seconds)


@contextmanager
def _taken_back_by_errors(transaction: LogTransaction) -> Iterator[None]:
    # Of others, too, and of a run that ends.
    try:
        yield
    except BaseException:
        transaction.take_back()
        raise


class _Committing:
    """A transaction under way."""

    def __init__(self, node: Node, settles: Ranges) -> None:
        self.transaction = node.vhost.hosted.logs.transaction()
        self._node = node
        self._promise = TransactionPromise(None, {}, settles)
        node.promises.transactions.append(self._promise)
        self._settled = {
            name: [SettledPart(node.log(name).number, Settlement(0, [each]))]
            for name, each in settles.items()
        }

    def append(self, name: str, count: int, size: int) -> None:
        """Append records of the transaction to a queue, once."""
        first = self._node.log(name).next_offset
        self._promise.appended[name] = first, first + count
        self._node.append(name, count, size)

    def go_on(self, append: Callable[[], object]) -> int:
        """Have a function append, and the first time settle as well; returns the journal position."""
        if self._promise.position is not None:
            self.transaction.append(append)
            return self.transaction.position
        entries = SettledEntries(chain.from_iterable(self._settled.values()))
        self.transaction.append(append, [entries])
        position = self._promise.position = self.transaction.position
        for name, each in self._promise.settled.items():
            self._node.promised(name).settle(*each)
            self._node.promised(name).barrier(position)
        self._node.store.progress.receipt(0, position).when_covered(self._durable)
        return position

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """An error meanwhile leaves nothing of it."""
        try:
            with _taken_back_by_errors(self.transaction):
                yield
        except BaseException:
            self._node.promises.transactions.remove(self._promise)
            for name in {*self._promise.appended, *self._promise.settled}:
                appended = self._promise.appended.get(name, (0, 0))
                settled = self._promise.settled.get(name, (0, 0))
                self._node.promised(name).taken_back(range(*appended), range(*settled))
            raise

    def end(self) -> None:
        """All of it is appended."""
        self.transaction.end()
        while self.transaction.show_some():
            pass

    def _durable(self) -> None:
        for name, parts in self._settled.items():
            self._node.log(name).open_cursor().will_settle(parts)
        asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        for name, each in self._promise.settled.items():
            log = self._node.log(name)
            cursor = log.open_cursor()
            cursor.settle(*each)
            cursor.has_settled(self._settled[name])
            log.release()
