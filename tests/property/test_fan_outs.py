"""Publishes to several queues among transactions, some of which are taken back: a restart finds all others."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import crash, start_store, unsettled

from routelog.log_backend import LogStore, LogTransaction, PartitionLog, Records

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "20"))
OPERATIONS = 60
QUEUES = ("a", "b", "c", "d", "e")
SIZES = (1, 300, 5_000)  # the journal does not copy the last one


class Refused(Exception):
    """A step of a transaction fails."""


class Publishers:
    """Those of a store, and what its queues must have.

    Attributes:
        expected: body by offset, of each queue.
    """

    def __init__(
        self, store: LogStore, partitions: list[PartitionLog], choice: random.Random
    ) -> None:
        self.expected: list[dict[int, bytes]] = [{} for _ in partitions]
        self._store = store
        self._partitions = partitions
        self._choice = choice
        self._contents: list[Records] = []
        self._transaction: LogTransaction | None = None
        self._in_transaction: list[tuple[int, int]] = []  # queue and offset

    def publish(self) -> list[tuple[int, int]]:
        """Append records to some queues; often the same ones as before, and to a queue twice."""
        choice = self._choice
        if not self._contents or choice.random() < 0.5:
            body = b"%d " % len(self._contents) * choice.choice(SIZES)
            self._contents.append(records([body]))
        content = choice.choice(self._contents[-2:])
        appended = []
        for queue in choice.choices(range(len(QUEUES)), k=choice.randint(1, 6)):
            log = self._partitions[queue]
            appended.append((queue, log.next_offset))
            self.expected[queue][log.next_offset] = content.body(0)
            log.append(content, waited=True)
        return appended

    def step(self) -> None:
        """Let a transaction, which begins or goes on, append; it may fail half-way."""
        self._transaction = self._transaction or self._store.transaction()
        fails = self._choice.random() < 0.2

        def append() -> None:
            self._in_transaction += self.publish()
            if fails:
                raise Refused

        try:
            self._transaction.append(append)
        except Refused:
            self._was_taken_back()
        else:
            self._transaction.pause()

    def end(self) -> None:
        """End the transaction that is under way: well, or taken back."""
        if self._transaction is None:
            return
        if self._choice.random() < 0.5:
            self._transaction.take_back()
            self._was_taken_back()
            return
        self._transaction.end()
        while self._transaction.show_some():
            pass
        self._transaction, self._in_transaction = None, []

    def _was_taken_back(self) -> None:
        for queue, offset in self._in_transaction:
            del self.expected[queue][offset]
        self._transaction, self._in_transaction = None, []


async def bodies(partitions: list[PartitionLog]) -> list[dict[int, bytes]]:
    return [dict(await unsettled(each)) for each in partitions]


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_restart_finds_each_publish_in_each_of_its_queues(
    tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    store, partitions = start_store(tmp_path / "data", queues=QUEUES)
    publishers = Publishers(store, partitions, choice)
    for _ in range(OPERATIONS):
        operation = choice.choices((publishers.publish, publishers.step, publishers.end), (4, 3, 1))
        operation[0]()
    publishers.end()
    assert await bodies(partitions) == publishers.expected
    await store.journal.drain()
    left = await crash(store, tmp_path / "data")
    await store.aclose()
    store, partitions = start_store(left, queues=QUEUES, epoch=2)
    assert await bodies(partitions) == publishers.expected
    await store.aclose()
