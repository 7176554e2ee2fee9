"""Which basic.ack and basic.nack a publisher gets, and in which order."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.queue_samples import Turns

from routelog.amqp_front.publishing.confirm_sender import ConfirmSender
from routelog.broker import Gate
from routelog.log_backend import NOTHING, Progress
from routelog.vhosts import UNCOUNTED

CONSUMERS = frozenset({"consumers"})
SIZE = 21  # of a frame


class Channel:
    """A channel with number 7, that notes what it is to send."""

    def __init__(self) -> None:
        self.number = 7
        self.counters = UNCOUNTED
        self.written = b""
        self.turns: list[Any] = []
        self.progress = Progress(self.turns.append, float)
        self.services = SimpleNamespace(progress=self.progress)

    def write(self, frames: bytes) -> None:
        self.written += frames

    def run_turns(self) -> None:
        """Let the event loop have its turns."""
        while self.turns:
            self.turns.pop(0)()

    def sent(self) -> list[tuple[str, int, bool]]:
        """Method, delivery tag, and whether it is for several, of all since the last look."""
        frames, self.written = self.written, b""
        found = []
        for at in range(0, len(frames), SIZE):
            frame = frames[at : at + SIZE]
            assert (frame[:9], frame[-1]) == (b"\1\0\7\0\0\0\x0d\0\x3c", 0xCE)
            method = {80: "ack", 120: "nack"}[frame[10]]
            found.append((method, int.from_bytes(frame[11:19], "big"), bool(frame[19])))
        return found


def closed_gate() -> Gate:
    """The gate of a queue whose consumers are behind."""
    gate = Gate(cast(Any, Turns()))
    gate.close_for(CONSUMERS)
    return gate


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def sender(channel: Channel) -> ConfirmSender:
    return ConfirmSender(cast(Any, channel))


def test_what_was_refused_is_told_in_its_place(channel: Channel, sender: ConfirmSender) -> None:
    sender.published(5, {1, 3, 4}, channel.progress.receipt(0, 9))
    sender.published(2, (), NOTHING)
    assert channel.sent() == []
    channel.progress.advance(9, 0)
    assert channel.sent() == []
    channel.progress.advance(9, 9)
    assert channel.sent() == [
        ("ack", 1, False),
        ("nack", 2, False),
        ("ack", 3, False),
        ("nack", 5, True),
        ("ack", 7, True),
    ]


def test_when_the_journal_fails_all_that_waits_is_refused(
    channel: Channel, sender: ConfirmSender
) -> None:
    sender.published(2, (), channel.progress.receipt(0, 9))
    sender.lost(3)
    assert channel.sent() == [("nack", 5, True)]


def test_when_a_session_is_lost_what_other_journals_are_to_have_waits_on(
    channel: Channel, sender: ConfirmSender
) -> None:
    session = Progress(channel.turns.append, float)
    sender.published(1, (), session.receipt(0, 1))
    sender.published(1, (), session.receipt(0, 2))
    sender.published(1, (), channel.progress.receipt(0, 9).joined(session.receipt(0, 2)))
    sender.published(1, (), channel.progress.receipt(0, 9))
    session.advance(1, 1)
    assert channel.sent() == [("ack", 1, False)]
    session.fail()
    assert channel.sent() == [("nack", 3, True)]
    sender.published(1, (), session.receipt(0, 3))
    channel.progress.advance(9, 9)
    channel.run_turns()
    assert channel.sent() == [("ack", 4, False), ("nack", 5, False)]


def test_what_the_journal_has_is_confirmed_before_something_else_is_sent(
    channel: Channel, sender: ConfirmSender
) -> None:
    sender.published(1, (), NOTHING)
    sender.published(1, (), channel.progress.receipt(0, 9))
    sender.catch_up()
    assert channel.sent() == [("ack", 1, False)]


def test_a_closed_channel_is_told_nothing_more(channel: Channel, sender: ConfirmSender) -> None:
    sender.published(1, (), channel.progress.receipt(0, 9))
    sender.close()
    channel.progress.advance(9, 9)
    channel.progress.fail()
    assert channel.sent() == []


def test_what_is_known_is_told_before_the_end_and_nothing_behind_it(
    channel: Channel, sender: ConfirmSender
) -> None:
    sender.published(2, (), NOTHING)
    sender.published(1, {0}, NOTHING)
    sender.published(1, (), channel.progress.receipt(0, 9))
    sender.close()
    assert channel.sent() == [("ack", 2, True), ("nack", 3, False)]
    channel.progress.advance(9, 9)
    assert channel.sent() == []


def test_what_waits_at_a_gate_is_confirmed_when_it_opens(
    channel: Channel, sender: ConfirmSender
) -> None:
    gate, other = closed_gate(), closed_gate()
    sender.wait_at(gate)
    sender.wait_at(other)
    other.close_for(frozenset())
    sender.published(1, (), channel.progress.receipt(0, 8))
    sender.published(1, (), channel.progress.receipt(0, 9))
    channel.progress.advance(8, 8)
    sender.published(1, (), NOTHING)
    channel.run_turns()
    assert channel.sent() == []
    gate.close_for(frozenset())
    assert channel.sent() == [("ack", 1, False)]
    channel.progress.advance(9, 9)
    assert channel.sent() == [("ack", 3, True)]
    gate.close_for(CONSUMERS)
    sender.wait_at(gate)
    gate.close_for(frozenset())
    sender.published(1, (), NOTHING)
    channel.run_turns()
    assert channel.sent() == [("ack", 4, False)]


def test_what_waits_at_a_gate_hears_of_a_failure_and_of_the_end_only(
    channel: Channel, sender: ConfirmSender
) -> None:
    gate = closed_gate()
    sender.wait_at(gate)
    sender.published(1, (), channel.progress.receipt(0, 8))
    channel.progress.fail()
    assert channel.sent() == [("nack", 1, False)]
    sender.published(1, (), NOTHING)
    channel.run_turns()
    sender.close()
    assert channel.sent() == [("ack", 2, False)]
    gate.close_for(frozenset())
    assert channel.sent() == []


def test_the_time_is_that_of_the_journal_which_a_publish_waits_for(channel: Channel) -> None:
    sender, session = ConfirmSender(cast(Any, channel)), Progress(channel.turns.append, float)
    sender.published(1, (), session.receipt(0, 1))
    session.advance(1, 1)
    channel.run_turns()
    sender.published(1, (), NOTHING)
    channel.run_turns()
    assert [sum(each.latencies.counts) for each in (session, channel.progress)] == [1, 1]
    assert channel.sent() == [("ack", 1, False), ("ack", 2, False)]
