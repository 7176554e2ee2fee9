"""The newest messages of a recent history exchange."""

from array import array
from pathlib import Path

import pytest
from support.queue_samples import declare_queue, running_node

from routelog.exchanges import Binding, Exchange, Message
from routelog.log_backend import Records, encode_records
from routelog.vhosts import QueueProperties
from routelog.vhosts.publishing import recent_history
from routelog.vhosts.publishing.exchange_memory import Note
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit
from routelog.vhosts.publishing.recent_history import RecentHistory


def limit(bytes_max: int = 1 << 40) -> ExchangeMemoryLimit:
    return ExchangeMemoryLimit(bytes_max, lambda size: None)


def batch(bodies: list[bytes]) -> Records:
    source, rows = bytearray(), array("i")
    for body in bodies:
        rows.extend((0, 0, 0, 0, len(source), len(body)))
        source += body
    made: Records = encode_records(
        memoryview(source), memoryview(rows), None, len(bodies), b"x", b"k", 0, 1
    )
    return made


def publish(history: RecentHistory, *bodies: bytes) -> None:
    notes = [(place, Note(b"")) for place in range(len(bodies))]
    history.remember(notes, lambda places: batch([bodies[at] for at in places]), persistent=True)()


def kept(history: RecentHistory) -> list[bytes]:
    return [
        each.records.body(at)
        for each in history.stretches()
        for at in range(each.index, each.index + each.count)
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("publish_at_once", [1, 2, 5, 40])
def test_the_newest_are_kept_in_order(length: int, publish_at_once: int) -> None:
    history = RecentHistory(length, None, limit())
    bodies = [b"%d" % number for number in range(40)]
    for at in range(0, 40, publish_at_once):
        publish(history, *bodies[at : at + publish_at_once])
        assert kept(history) == bodies[: at + publish_at_once][-length:]


def test_memory_is_bounded_whatever_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_history, "HISTORY_BYTES_MAX", 10_000)
    history = RecentHistory(100, None, limit())
    for number in range(50):
        publish(history, bytes(2_000), b"%d" % number)
    assert kept(history)[-1] == b"49"
    assert sum(len(each.records.payload) for each in history.stretches()) <= 10_000


def test_a_message_may_ask_not_to_be_kept() -> None:
    history = RecentHistory(1, None, limit())
    assert history.note(Message({"x-recent-history-no-store": True})) is None
    assert history.note(Message({"x-recent-history-no-store": False})) is not None
    assert history.note(Message({})) is not None


def test_all_histories_of_a_node_are_bounded_and_the_largest_forget() -> None:
    held: list[int] = []
    together = ExchangeMemoryLimit(100_000, held.append)
    large = [RecentHistory(1_000, None, together) for _ in range(3)]
    small = RecentHistory(1_000, None, together)
    publish(small, b"first")
    for number in range(300):
        publish(large[number % 3], bytes(2_000))
        assert together.bytes == sum(held) <= 100_000
    publish(small, b"last")
    assert kept(small) == [b"first", b"last"]
    sizes = [history.bytes for history in large]
    assert min(sizes) > 20_000
    assert together.bytes == sum(sizes) + small.bytes
    for history in (*large, small):
        history.close()
    assert together.bytes == sum(held) == 0


def test_what_is_larger_than_all_histories_may_be_is_not_kept() -> None:
    history = RecentHistory(10, None, limit(10_000))
    publish(history, bytes(20_000))
    assert kept(history) == []
    publish(history, b"small")
    assert kept(history) == [b"small"]


@pytest.mark.parametrize("count", [3, 25])
async def test_the_time_to_live_of_what_is_handed_over_counts_from_then(
    tmp_path: Path, count: int
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        vhost = node.vhost
        properties = QueueProperties("q", arguments={"x-message-ttl": 10_000})
        queue, _ = declare_queue(vhost, properties, None)
        vhost.declare_exchange(Exchange("x", "x-recent-history", durable=False))
        history = vhost.hosted.memories.by_name["x"]
        assert isinstance(history, RecentHistory)
        publish(history, *[b"old"] * count)
        kept_count = len(kept(history))
        vhost.bind(Binding("x", "q", "queue", ""))
        node.turns.pass_seconds(9)
        assert queue.ready == kept_count
        node.turns.pass_seconds(2)
        assert queue.ready == 0
