"""Topology as it is stored: keys that cannot be mixed up, values that come back."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

import msgspec
import pytest

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Change
from routelog.vhosts import QueueProperties
from routelog.vhosts.stored.topology_record import (
    TRANSIENT_PREFIX,
    VHOSTS_PREFIX,
    BindingRecord,
    ExchangeRecord,
    GroupRecord,
    NextCursorRecord,
    QueueRecord,
    TransientQueueRecord,
    VhostRecord,
    binding_change,
    exchange_change,
    group_change,
    next_cursor_change,
    prefix,
    queue_change,
    vhost_change,
)

NAMES = ["a", "a/b", "%2F", "a b", "é☃", "..", "x" * 255, "\x00", "a%2Fb", "A"]

ARGUMENTS: dict[str, object] = {
    "bool": True,
    "int": 2**40,
    "float": 0.1,
    "decimal": Decimal("1.50"),
    "time": datetime(2020, 1, 1, tzinfo=UTC),
    "far time": 2**64 - 1,
    "text": "é",
    "bytes": b"\xff",
    "none": None,
    "list": [1, [2.5], {"a": b""}],
    "table": {"deep": {"x": "y"}},
    "n" * 200: 1,
}


def value(change: Change) -> bytes:
    assert change.value is not None
    return change.value


@pytest.mark.parametrize("name", NAMES)
def test_a_vhost_comes_back(name: str) -> None:
    change = vhost_change(VhostRecord(name))
    assert change.key.startswith(VHOSTS_PREFIX)
    assert b"/" not in change.key[len(VHOSTS_PREFIX) :]
    assert msgspec.json.decode(value(change), type=VhostRecord).name == name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flags", list(product([False, True], repeat=2)))
def test_an_exchange_comes_back(name: str, flags: tuple[bool, bool]) -> None:
    auto_delete, internal = flags
    exchange = Exchange(name, "topic", True, auto_delete, internal, ARGUMENTS)
    change = exchange_change("/", exchange)
    assert change.key.startswith(prefix("exchanges", "/"))
    assert (
        msgspec.json.decode(value(change), type=ExchangeRecord).exchange(durable=True) == exchange
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("auto_delete", [False, True])
def test_a_queue_comes_back_with_its_partitions(name: str, auto_delete: bool) -> None:
    queue = QueueProperties(name, durable=True, auto_delete=auto_delete, arguments=ARGUMENTS)
    change = queue_change("v", queue, [7, 2**40], paused=auto_delete)
    assert change.key.startswith(prefix("queues", "v"))
    record = msgspec.json.decode(value(change), type=QueueRecord)
    assert record.properties() == queue
    assert record.partitions == [7, 2**40]
    assert record.paused == auto_delete


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["", "a.*.#", "a/b", "é"])
def test_a_binding_comes_back(name: str, key: str) -> None:
    for kind in ("queue", "exchange"):
        binding = Binding("source", name, kind, key, ARGUMENTS, True)
        change = binding_change("v", binding)
        assert change.key.startswith(prefix("bindings", "v"))
        assert (
            msgspec.json.decode(value(change), type=BindingRecord).binding(durable=True) == binding
        )


def test_what_is_not_durable_comes_back_under_a_key_of_its_own() -> None:
    exchange = Exchange("x", "fanout", False, True, False, ARGUMENTS, "me")
    binding = Binding("x", "q", "queue", "k", ARGUMENTS, False, "me")
    changes = [exchange_change("v", exchange), binding_change("v", binding)]
    read = msgspec.json.decode(value(changes[0]), type=ExchangeRecord)
    assert read.exchange(durable=False) == exchange
    bound = msgspec.json.decode(value(changes[1]), type=BindingRecord).binding(durable=False)
    assert (bound, bound.durable, bound.user) == (binding, False, "me")
    for queue in (
        QueueProperties("q", auto_delete=True, arguments=ARGUMENTS),
        QueueProperties("q", exclusive=True, user="me"),
    ):
        changes.append(queue_change("v", queue, [3], owner="b:7"))
        record = msgspec.json.decode(value(changes[-1]), type=TransientQueueRecord)
        assert record.properties() == queue
        assert (record.partitions, record.owner) == ([3], "b:7")
        assert queue_change("v", queue, [], deleted=True).key == changes[-1].key
    kinds = ["exchanges", "bindings", "queues", "queues"]
    for change, kind in zip(changes, kinds, strict=True):
        assert change.key.startswith(TRANSIENT_PREFIX)
        assert change.key.startswith(prefix(f"transient-{kind}", "v"))
    ended = queue_change("v", QueueProperties("q", durable=True, exclusive=True), [3])
    assert ended.key == changes[-1].key


def test_a_deletion_has_the_key_of_what_was_written() -> None:
    exchange = Exchange("x", "fanout", True, False, False, ARGUMENTS)
    queue = QueueProperties("q", durable=True, arguments=ARGUMENTS)
    binding = Binding("x", "q", "queue", "k", ARGUMENTS, True)
    for written, deleted in (
        (exchange_change("v", exchange), exchange_change("v", exchange, deleted=True)),
        (queue_change("v", queue, [1]), queue_change("v", queue, [1], deleted=True)),
        (binding_change("v", binding), binding_change("v", binding, deleted=True)),
    ):
        assert deleted == Change(written.key, None)


def test_a_binding_read_from_the_store_is_deleted_under_its_old_key() -> None:
    binding = Binding("x", "q", "queue", "k", ARGUMENTS, True)
    change = binding_change("v", binding)
    read = msgspec.json.decode(value(change), type=BindingRecord).binding(durable=True)
    assert binding_change("v", read, deleted=True).key == change.key


def test_no_two_things_share_a_key() -> None:
    keys = [vhost_change(VhostRecord(name)).key for name in NAMES]
    for vhost, name in product(NAMES, NAMES):
        keys.append(exchange_change(vhost, Exchange(name, "direct", True)).key)
        keys.append(queue_change(vhost, QueueProperties(name), [1]).key)
    for source, destination, key in product(NAMES[:6], NAMES[:6], ["", *NAMES[:6]]):
        for arguments in ({}, {"a": 1}, {"a": "1"}):
            for kind in ("queue", "exchange"):
                binding = Binding(source, destination, kind, key, arguments)
                keys.append(binding_change("/", binding).key)
    assert len(set(keys)) == len(keys)


def test_the_prefix_of_a_vhost_is_of_no_other() -> None:
    for one, other in product(NAMES, NAMES):
        key = queue_change(one, QueueProperties("q", durable=True), [1]).key
        assert key.startswith(prefix("queues", other)) is (one == other)


def test_a_record_of_a_later_version_is_not_read() -> None:
    later = value(vhost_change(VhostRecord("v"))).replace(b'"version":1', b'"version":2')
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(later, type=VhostRecord)


RECORD = GroupRecord("a/b", "é 1", 3, [5, 0], None)


def test_a_group_comes_back_from_what_is_stored() -> None:
    change = group_change("/", RECORD)
    assert change.key == b"groups/%2F/a%2Fb/%C3%A9%201"
    assert change.value is not None
    assert msgspec.json.decode(change.value, type=GroupRecord) == RECORD
    assert msgspec.json.decode(change.value)["version"] == 1


def test_the_next_cursor_comes_back() -> None:
    change = next_cursor_change("v", "q", 7)
    assert change.key == b"next-cursors/v/q"
    assert change.value is not None
    assert msgspec.json.decode(change.value, type=NextCursorRecord) == NextCursorRecord("q", 7)


def test_what_is_deleted_has_no_value() -> None:
    assert group_change("/", RECORD, deleted=True).value is None
    assert group_change("/", RECORD, deleted=True).key == group_change("/", RECORD).key
    assert next_cursor_change("v", "q", None).value is None
