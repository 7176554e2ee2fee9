"""The plan of a window of kept messages: few batches, and for each queue the order of the publisher.

The messages of a kind that go one way are a batch of their own, whatever lay between them. Where a queue gets
messages of several kinds, these are planned in the order of their publishing, as many batches as it takes:
a batch has one exchange, and is persistent or not.
"""

from collections.abc import Iterable, Iterator, Sequence

from routelog.amqp_front.transactions.commit_plan import Queues
from routelog.amqp_front.transactions.run_planner import RunPlanner
from routelog.amqp_front.transactions.transaction_buffer import TransactionBuffer
from routelog.amqp_front.wire.command import PublishRun
from routelog.vhosts import Recipient

# Of one step: several of them take a turn of the loop.
STEP_RECORDS = 4_096
STEP_BYTES = 262_144  # encoded, with their checksums: 0.1 ms, 0.7 in memory that is to be found
STEP_BATCHES = 256
STEP_STRETCHES = 4_096
STEP_NAMES = 4_096


class _Ways:
    """Where the messages of one run go.

    Attributes:
        is_known: their keys decide.
        overlap: a queue is on several ways.
        chosen: queues, and the indexes of the messages for them.
        reached: the queues on all ways; None: what has none is returned.
        done: how many messages are planned.
    """

    def __init__(self, run: PublishRun) -> None:
        self.run = run
        self.is_known = True
        self.overlap = False
        self.chosen: dict[int, tuple[Queues, list[int]]] = {}
        self.reached: set[Recipient | None] = set()
        self.done = 0

    def find(self, planner: RunPlanner) -> Iterator[None]:
        run, at = self.run, 0
        while at < run.count:
            found = planner.found(run.part(at, min(STEP_RECORDS, run.count - at)))
            if found is None:
                self.is_known = False
                return
            names = 0
            for queues, indexes in found:
                way = self.chosen.get(id(queues))
                if way is None:
                    way = self.chosen[id(queues)] = (queues, [])
                    names += self._reach(queues)
                    if names > STEP_NAMES:
                        names = 0
                        yield
                way[1].extend([at + index for index in indexes])
            at += sum(len(indexes) for _, indexes in found)
            yield

    def _reach(self, queues: Queues) -> int:
        before = len(self.reached)
        self.reached.update(queues)
        self.overlap |= len(self.reached) < before + len(queues)
        if not queues and self.run.mandatory:
            self.reached.add(None)
        return len(queues)

    def next_part(self, count: int) -> PublishRun:
        """The next messages in order, as many as a step bears."""
        run, first, size = self.run, self.done, 0
        if count == 1:
            return run.part(first, 1)
        end = first + min(count, STEP_RECORDS)
        sizes = run.rows[5::6]
        for at in range(first, end):
            size += sizes[at]
            if size > STEP_BYTES:
                end = at + 1
                break
        return run.part(first, end - first)


def planned(window: TransactionBuffer, planner: RunPlanner) -> Iterator[None]:
    """Plan what a window holds; goes on with each step.

    Raises:
        See `CommitPlanning.go_on`.
    """
    ways = [_Ways(run) for run in window.runs()]
    for each in ways:
        planner.plan.exchanges.add(each.run.exchange.decode())
        yield from each.find(planner)
    mixed: set[int] = set()
    if len(ways) > 1:
        yield from _find_mixed(ways, mixed)
    for at, each in enumerate(ways):
        if at in mixed:
            continue
        if each.is_known and not each.overlap:
            yield from _shared_out(each, planner)
        else:
            yield from _in_order(each, each.run.count, planner)
    if mixed:
        yield from _by_turns(ways, mixed, window.order(), planner)


def _find_mixed(ways: Sequence[_Ways], mixed: set[int]) -> Iterator[None]:
    # Adds the indexes of those with a queue in common.
    if not all(each.is_known for each in ways):
        mixed.update(range(len(ways)))
        return
    seen: set[Recipient | None] = set()
    common: set[Recipient | None] = set()
    for each in ways:
        common |= seen & each.reached
        seen |= each.reached
        yield
    for at, each in enumerate(ways):
        if not common.isdisjoint(each.reached):
            mixed.add(at)
            yield


def _shared_out(ways: _Ways, planner: RunPlanner) -> Iterator[None]:
    # A batch for each way, or more when it would be large.
    parts: list[tuple[Queues, list[int]]] = []
    count = size = 0
    for queues, indexes in ways.chosen.values():
        for part, part_bytes in _cut(ways.run, indexes):
            parts.append((queues, part))
            count += len(part)
            size += part_bytes
            if count >= STEP_RECORDS or size >= STEP_BYTES or len(parts) >= STEP_BATCHES:
                planner.share(ways.run, parts)
                parts, count, size = [], 0, 0
                yield
    if parts:
        planner.share(ways.run, parts)


def _cut(run: PublishRun, indexes: list[int]) -> Iterator[tuple[list[int], int]]:
    sizes = run.rows[5::6]
    first = size = 0
    for at, index in enumerate(indexes):
        size += sizes[index]
        if size >= STEP_BYTES or at + 1 - first == STEP_RECORDS:
            yield indexes[first : at + 1], size
            first, size = at + 1, 0
    if first < len(indexes):
        yield indexes[first:], size


def _in_order(ways: _Ways, count: int, planner: RunPlanner) -> Iterator[None]:
    end = ways.done + count
    while ways.done < end:
        ways.done += planner.add(ways.next_part(end - ways.done))
        yield


def _by_turns(
    ways: Sequence[_Ways],
    mixed: set[int],
    order: Iterable[tuple[int, int]],
    planner: RunPlanner,
) -> Iterator[None]:
    last = waiting = looked = 0
    for at, count in order:
        looked += 1
        if looked % STEP_STRETCHES == 0:
            yield
        if at not in mixed:
            continue
        if at != last:
            yield from _in_order(ways[last], waiting, planner)
            last, waiting = at, 0
        waiting += count
    yield from _in_order(ways[last], waiting, planner)
