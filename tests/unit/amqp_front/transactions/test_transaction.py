"""Transactions: what they keep, and that it is theirs."""

from array import array

import pytest
from support.frame_samples import publish, some_properties
from support.intake_samples import share

from routelog.amqp_front.consuming.unacked import Taken, UnackedRun
from routelog.amqp_front.transactions import transaction
from routelog.amqp_front.transactions.transaction import ENTRY_BYTES, KeptRun, Transaction
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
    (own,) = runs(kept)
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


def runs(kept: Transaction) -> list[PublishRun]:
    """What a transaction has of publishes."""
    return [each.run() if isinstance(each, KeptRun) else each for each in kept.kept]


def bodies(kept: Transaction) -> list[list[bytes]]:
    """Of each run that a transaction has."""
    return [[run.body(at) for at in range(run.count)] for run in runs(kept)]


def taken() -> Taken:
    """One delivery that was settled."""
    return Taken([UnackedRun(1, 2, None, 0, None)], Reason.ACKED)


def test_a_transaction_keeps_its_order() -> None:
    kept = Transaction(share())
    settled = [taken(), taken()]
    for at, each in enumerate(settled):
        kept.publish(publish_run(publish(1, f"x{at}", f"k{at}", b""))[0])
        kept.settle(each)
    assert [run.keys() for run in runs(kept)] == [[b"k0"], [b"k1"]]
    assert kept.taken == {Reason.ACKED: [run for each in settled for run in each.runs]}


def test_neighbours_to_an_exchange_with_equal_flags_are_one_run() -> None:
    kept = Transaction(share())
    for at, (exchange, options) in enumerate(
        [
            ("x", {}),
            ("x", {"properties": some_properties(content_type="text")}),
            ("x", {"properties": some_properties(expiration="9")}),
            ("y", {}),
            ("x", {"mandatory": True}),
            ("x", {"properties": PERSISTENT}),
            ("x", {"properties": PERSISTENT}),
        ]
    ):
        kept.publish(publish_run(publish(1, exchange, "k", b"%d" % at, **options))[0])
    assert bodies(kept) == [[b"0", b"1", b"2"], [b"3"], [b"4"], [b"5", b"6"]]
    found = runs(kept)
    assert [run.exchange for run in found] == [b"x", b"y", b"x", b"x"]
    assert [run.property_flags & EXPIRATION for run in found] == [EXPIRATION, 0, 0, 0]
    assert [run.persistent for run in found] == [False, False, False, True]
    assert [run.mandatory for run in found] == [False, False, True, False]


def test_what_has_one_key_in_common_keeps_that() -> None:
    same, other = Transaction(share()), Transaction(share())
    for kept, keys in ((same, "kk"), (other, "kj")):
        for key in keys:
            kept.publish(publish_run(publish(1, "x", key, b""))[0])
    ((one,), (two,)) = runs(same), runs(other)
    assert (one.routing_key, two.routing_key) == (b"k", None)
    assert (one.keys(), two.keys()) == ([b"k", b"k"], [b"k", b"j"])


def test_a_run_is_limited_in_messages_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "RUN_RECORDS_MAX", 3)
    monkeypatch.setattr(transaction, "RUN_BYTES_MAX", 1_000)
    kept = Transaction(share())
    for size in (1, 1, 1, 1, 999, 1, 1):
        kept.publish(publish_run(publish(1, "x", "k", bytes(size)))[0])
    assert [[len(body) for body in run] for run in bodies(kept)] == [[1, 1, 1], [1, 999], [1, 1]]


def test_only_what_a_part_of_a_run_has_is_copied() -> None:
    run, _ = publish_run(b"".join(publish(1, "x", "k", bytes([at]) * 500) for at in range(9)))
    kept = Transaction(share())
    kept.publish(run.part(6, 2))
    (only,) = kept.kept
    assert isinstance(only, KeptRun)
    assert only.bytes < 1_200
    assert bodies(kept) == [[bytes([6]) * 500, bytes([7]) * 500]]
    assert [run.records(0, 1).routing_key(1) for run in runs(kept)] == [b"k"]


def test_a_publish_that_has_bytes_of_its_own_is_not_copied() -> None:
    own = single_run(1, b"x", b"k", 0, Properties(b"\0\0"), b"large")
    kept = Transaction(share())
    kept.publish(own)
    kept.publish(publish_run(publish(1, "x", "k", b"small"))[0])
    first, second = kept.kept
    assert first is own
    assert isinstance(second, KeptRun)
    assert second.run().body(0) == b"small"


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
