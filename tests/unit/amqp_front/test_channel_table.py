"""The channels of a connection: which of them wait for content."""

from types import SimpleNamespace
from typing import Any, cast

from amqp_front.channel_table import ChannelTable


def channel(number: int) -> Any:
    return SimpleNamespace(number=number, partial=None, closing=False, release=lambda: None)


def test_content_is_waited_for_until_the_last_channel_has_its_own() -> None:
    table = ChannelTable(cast(Any, None))
    one, other = channel(1), channel(2)
    table.note(one)
    assert not table.is_assembling()
    one.partial = other.partial = object()
    for each in (one, other):
        table.note(each)
    one.partial = None
    table.note(one)
    assert table.is_assembling()
    other.partial = None
    table.note(other)
    assert not table.is_assembling()


def test_released_channels_wait_for_nothing() -> None:
    table = ChannelTable(cast(Any, None))
    waiting = channel(7)
    waiting.partial = object()
    table.note(waiting)
    table.release()
    assert not table.is_assembling()
