"""The channels of a connection: which of them wait for content."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.wire.command import ACK, Frame, PublishRun, SettleRun
from routelog.amqp_front.wire.frame_cutter import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)


def channel(number: int) -> Any:
    return SimpleNamespace(number=number, partial=None, closing=False, release=lambda: None)


def test_content_is_waited_for_until_the_last_channel_has_its_own() -> None:
    table = ChannelTable(cast(Any, None))
    one, other = channel(1), channel(2)
    table.note(one)
    assert not table.assembling
    one.partial = other.partial = object()
    for each in (one, other):
        table.note(each)
    one.partial = None
    table.note(one)
    assert table.assembling
    other.partial = None
    table.note(other)
    assert not table.assembling


def test_released_channels_wait_for_nothing() -> None:
    table = ChannelTable(cast(Any, None))
    waiting = channel(7)
    waiting.partial = object()
    table.note(waiting)
    table.release()
    assert not table.assembling


BASIC_PUBLISH, BASIC_ACK, TX_COMMIT = b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"\0\x5a\0\x14"


def table_with(**state: Any) -> ChannelTable:
    table = ChannelTable(cast(Any, None))
    channel: Any = SimpleNamespace(**{"closing": False, "transactions": None} | state)
    table._channels[1] = channel
    return table


def run(channel: int) -> PublishRun:
    empty = memoryview(b"")
    return PublishRun(channel, empty, empty, 1, b"", b"k", 0, 0, True)


@pytest.mark.parametrize(
    ("command", "publishes"),
    [
        (run(1), True),
        (run(2), False),
        (SettleRun(1, ACK, 1, 1, False), False),
        (Frame(FRAME_METHOD, 1, BASIC_PUBLISH + bytes(5)), True),
        (Frame(FRAME_HEADER, 1, b""), True),
        (Frame(FRAME_BODY, 1, b""), True),
        (Frame(FRAME_METHOD, 1, BASIC_ACK + bytes(9)), False),
        (Frame(FRAME_METHOD, 1, TX_COMMIT), False),
        (Frame(FRAME_METHOD, 2, BASIC_PUBLISH), False),
        (Frame(FRAME_METHOD, 0, BASIC_PUBLISH), False),
        (Frame(FRAME_HEARTBEAT, 0, b""), False),
    ],
)
def test_what_brings_in_messages_is_known(command: Any, publishes: bool) -> None:
    assert table_with().publishes(command) is publishes
    assert not table_with(closing=True).publishes(command)


def test_a_commit_publishes_when_its_transaction_does() -> None:
    commit = Frame(FRAME_METHOD, 1, TX_COMMIT)
    for publishes in (True, False):
        table = table_with(transactions=SimpleNamespace(publishes=publishes))
        assert table.publishes(commit) is publishes
