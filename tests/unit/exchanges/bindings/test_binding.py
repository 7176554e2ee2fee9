"""Bindings as values: what makes two of them one."""

import msgspec
import pytest

from routelog.exchanges.bindings.binding import Binding

BINDING = Binding("x", "q", "queue", "k", {"a": 1})


def test_equal_arguments_make_one_binding() -> None:
    for arguments in ({"a": 1}, {"a": 1.0}):
        twin = Binding("x", "q", "queue", "k", arguments, durable=True)
        assert twin == BINDING
        assert hash(twin) == hash(BINDING)


@pytest.mark.parametrize(
    "other",
    [
        Binding("y", "q", "queue", "k", {"a": 1}),
        Binding("x", "p", "queue", "k", {"a": 1}),
        Binding("x", "q", "exchange", "k", {"a": 1}),
        Binding("x", "q", "queue", "l", {"a": 1}),
        Binding("x", "q", "queue", "k", {"a": 2}),
        Binding("x", "q", "queue", "k", {"a": True}),
        Binding("x", "q", "queue", "k"),
    ],
)
def test_each_part_of_the_identity_counts(other: Binding) -> None:
    assert other != BINDING


def test_a_binding_can_be_written_down_and_read_back() -> None:
    hash(BINDING)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(BINDING), type=Binding)
    assert read == BINDING
    assert read.arguments_hash == 0  # that of another process
    assert read.durable is False


def test_arguments_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    monkeypatch.setattr(
        "routelog.exchanges.bindings.binding.comparable_table", lambda table: hashed.append(table)
    )
    binding = Binding("x", "q", "queue", "k", {"a": 1})
    assert hash(binding) == hash(binding)
    assert len(hashed) == 1
