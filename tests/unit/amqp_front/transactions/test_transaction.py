"""Transactions: what they keep, and that it is theirs."""

from array import array
from collections import Counter

import pytest
from frame_samples import publish, some_properties
from intake_samples import share

from routelog.amqp_front.consuming.unacked import Taken, UnackedRun
from routelog.amqp_front.transactions import transaction, transaction_buffer
from routelog.amqp_front.transactions.transaction import ENTRY_BYTES, Transaction
from routelog.amqp_front.transactions.transaction_buffer import TransactionBuffer
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import single_run
from routelog.log_backend import EXPIRATION, Reason


def publish_run(stream: bytes) -> tuple[PublishRun, memoryview]:
    """The run of a stream, and the receive buffer that it points into."""
    cutter = FrameCutter(131_072)
    buffer = cutter.receive_into(b"")
    buffer[: len(stream)] = stream
    cutter.received(len(stream), 131_072)
    run = cutter.next(False)
    assert isinstance(run, PublishRun)
    return run, buffer


PERSISTENT = some_properties(delivery_mode=2, content_type="x")


@pytest.mark.parametrize("keys", [["k", "k", "k"], ["k", "long key", ""]])
def test_a_publish_outlives_the_receive_buffer(keys: list[str]) -> None:
    stream = b"".join(
        publish(4, "logs", key, b"body%d" % at, PERSISTENT, mandatory=True)
        for at, key in enumerate(keys)
    )
    run, buffer = publish_run(stream)
    kept = Transaction(share())
    kept.publish(run)
    buffer[: len(stream)] = b"\xee" * len(stream)
    run.rows[:18] = array("i", [0] * 18)
    (own,) = window(kept).runs()
    assert not kept.taken
    assert own.keys() == [key.encode() for key in keys]
    assert [own.body(at) for at in range(3)] == [b"body0", b"body1", b"body2"]
    assert own.properties(1) == PERSISTENT.marshal()
    assert (own.channel, own.exchange, own.count) == (4, b"logs", 3)
    assert (own.mandatory, own.immediate, own.persistent) == (True, False, True)
    assert own.property_flags == run.property_flags
    assert own.routing_key == run.routing_key
    records = own.records(0, 1)
    assert [records.routing_key(at) for at in range(3)] == [key.encode() for key in keys]


def window(kept: Transaction) -> TransactionBuffer:
    """The only one of a transaction."""
    (only,) = kept.kept
    assert isinstance(only, TransactionBuffer)
    return only


def in_order(window: TransactionBuffer) -> list[bytes]:
    """The bodies of what a window holds, as they were published."""
    runs, at = window.runs(), Counter[int]()
    found: list[bytes] = []
    for index, count in window.order():
        found += [runs[index].body(at[index] + more) for more in range(count)]
        at[index] += count
    assert [at[index] for index in range(len(runs))] == [run.count for run in runs]
    return found


def taken() -> Taken:
    """One delivery that was settled."""
    return Taken([UnackedRun(1, 2, None, 0, None)], Reason.ACKED)


def test_a_transaction_keeps_its_order() -> None:
    kept = Transaction(share())
    settled = [taken(), taken()]
    for at, each in enumerate(settled):
        kept.publish(publish_run(publish(1, f"x{at}", f"k{at}", b""))[0])
        kept.settle(each)
    assert [run.keys() for run in window(kept).runs()] == [[b"k0"], [b"k1"]]
    assert kept.taken == {Reason.ACKED: [run for each in settled for run in each.runs]}


def test_what_goes_to_an_exchange_is_one_run_whatever_came_between() -> None:
    kept = Transaction(share())
    for at, (exchange, options) in enumerate(
        [
            ("x", {}),
            ("x", {"properties": some_properties(content_type="text")}),
            ("y", {}),
            ("x", {}),
            ("x", {"mandatory": True}),
            ("x", {"properties": PERSISTENT}),
            ("x", {"properties": some_properties(expiration="9")}),
            ("x", {"properties": PERSISTENT}),
            ("y", {}),
        ]
    ):
        kept.publish(publish_run(publish(1, exchange, "k", b"%d" % at, **options))[0])
    runs = window(kept).runs()
    found = [b"".join(run.body(at) for at in range(run.count)) for run in runs]
    assert found == [b"013", b"28", b"4", b"57", b"6"]
    assert [run.property_flags & EXPIRATION for run in runs] == [0, 0, 0, 0, EXPIRATION]
    assert [run.persistent for run in runs] == [False, False, False, True, False]
    assert [run.mandatory for run in runs] == [False, False, True, False, False]
    assert in_order(window(kept)) == [b"%d" % at for at in range(9)]


def test_what_has_one_key_in_common_keeps_that() -> None:
    same, other = Transaction(share()), Transaction(share())
    for kept, keys in ((same, "kk"), (other, "kj")):
        for key in keys:
            kept.publish(publish_run(publish(1, "x", key, b""))[0])
    ((one,), (two,)) = window(same).runs(), window(other).runs()
    assert (one.routing_key, two.routing_key) == (b"k", None)
    assert (one.keys(), two.keys()) == ([b"k", b"k"], [b"k", b"j"])


def test_a_window_is_limited_in_messages_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_buffer, "KEPT_RECORDS_MAX", 3)
    monkeypatch.setattr(transaction_buffer, "KEPT_BYTES_MAX", 1_000)
    kept = Transaction(share())
    for size in (1, 1, 1, 1, 999, 1, 1):
        kept.publish(publish_run(publish(1, "x", "k", bytes(size)))[0])
    assert sizes(kept) == [[1, 1, 1], [1, 999], [1, 1]]


def test_a_window_is_limited_in_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_buffer, "KINDS_MAX", 2)
    kept = Transaction(share())
    for size, exchange in enumerate("xyxzy"):
        kept.publish(publish_run(publish(1, exchange, "k", bytes(size)))[0])
    assert sizes(kept) == [[0, 1, 2], [3, 4]]


def test_a_message_with_copies_stands_alone() -> None:
    copied = some_properties(headers={"CC": ["other"]})
    kept = Transaction(share())
    for size, options in enumerate([{}, {"properties": copied}, {"properties": copied}, {}, {}]):
        kept.publish(publish_run(publish(1, "x", "k", bytes(size), **options))[0])
    assert sizes(kept) == [[0], [1], [2], [3, 4]]


def sizes(kept: Transaction) -> list[list[int]]:
    """Of the bodies in its windows."""
    windows = [each for each in kept.kept if isinstance(each, TransactionBuffer)]
    return [[len(body) for body in in_order(window)] for window in windows]


def test_a_publish_that_has_bytes_of_its_own_is_not_copied() -> None:
    own = single_run(1, b"x", b"k", 0, Properties(b"\0\0"), b"large")
    kept = Transaction(share())
    kept.publish(own)
    kept.publish(publish_run(publish(1, "x", "k", b"small"))[0])
    first, second = kept.kept
    assert first is own
    assert isinstance(second, TransactionBuffer)
    assert in_order(second) == [b"small"]


def test_a_transaction_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = publish_run(publish(1, "x", "k", bytes(400)))[0]
    monkeypatch.setattr(transaction, "TRANSACTION_BYTES_MAX", ENTRY_BYTES + 2 * 500)
    kept = Transaction(share())
    kept.publish(run)
    kept.publish(run)
    with pytest.raises(SoftError) as caught:
        kept.publish(run)
    assert caught.value.code == PRECONDITION_FAILED


def test_neighbours_that_differ_count_as_much_as_a_kibibyte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction, "TRANSACTION_BYTES_MAX", 5 * ENTRY_BYTES)
    kept = Transaction(share())
    for exchange in "xyxy":
        kept.publish(publish_run(publish(1, exchange, "k", bytes(10)))[0])
    with pytest.raises(SoftError):
        kept.publish(publish_run(publish(1, "x", "k", bytes(10)))[0])


def test_settlements_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "TRANSACTION_BYTES_MAX", 20 * ENTRY_BYTES)
    kept = Transaction(share())
    for _ in range(10):
        kept.settle(taken())
    with pytest.raises(SoftError):
        kept.settle(taken())
