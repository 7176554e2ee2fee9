"""What is settled and returned over a session."""

from collections.abc import Callable, Iterable

import pytest
from support.queue_samples import records
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of

from routelog.exchanges import held_name
from routelog.log_backend import Reason
from routelog.vhosts import UNCOUNTED, ReturnReason
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.errors import OutcomePending
from routelog.vhosts.sessions.remote_exchange import RemoteExchanges
from routelog.vhosts.sessions.remote_partition import PartitionReturns, RemotePartition
from routelog.vhosts.sessions.session_message import MORE, Kind, SessionMessage

FAILED, RETURNED, UNUSED = ReturnReason.FAILED, ReturnReason.RETURNED, ReturnReason.UNUSED


class Source:
    woken = 0

    def on_ready(self) -> None:
        self.woken += 1


class Front:
    """A session with two consumers, 11 and 12, of partition 3."""

    def __init__(self) -> None:
        self.leader = ScriptedLeader()
        self.session = self.leader.open()
        self.returns = PartitionReturns(self.session, 3)
        self.counters = MessageCounters(ChangedCounters())
        self.source = Source()
        self.one, self.other = (self.partition(subject) for subject in (11, 12))

    def partition(self, subject: int) -> RemotePartition:
        return RemotePartition(
            self.session, subject, 10, 70, 3, self.counters, self.source, self.returns
        )

    def returned(self) -> list[tuple[int, int, int, int]]:
        """Subject, flags, and range of each RETURN."""
        said = self.leader.said()
        assert {(each.kind, each.partition) for each in said} <= {(Kind.RETURN, 3)}
        return [(each.subject, each.flags, each.first, each.first + each.count) for each in said]


@pytest.fixture
def front() -> Front:
    return Front()


def settled(said: Iterable[SessionMessage]) -> list[tuple[int, int, int, int]]:
    return [(each.subject, each.flags, each.first, each.first + each.count) for each in said]


def test_neighbours_are_settled_as_one_and_reasons_apart(front: Front) -> None:
    for first in (5, 6, 3, 9, 4):
        front.one.settle(first, first + 1)
    front.one.settle(7, 9, Reason.REJECTED)
    front.other.settle(1, 3)
    assert settled(front.leader.said()) == [
        (11, Reason.ACKED, 3, 7),
        (11, Reason.ACKED, 9, 10),
        (11, Reason.REJECTED, 7, 9),
        (12, Reason.ACKED, 1, 3),
    ]
    assert front.leader.said() == []
    front.one.settle(20, 30)
    assert settled(front.leader.said()) == [(11, Reason.ACKED, 20, 30)]


def _publish_to_an_exchange(front: Front) -> None:
    exchange = RemoteExchanges("/", front.leader.link).recipient(held_name("x"))
    assert exchange is not None
    with pytest.raises(OutcomePending):
        exchange.publish(records("a"), True)


def test_rejects_stay_in_their_order(front: Front) -> None:
    for first in (8, 3, 4):
        front.one.settle(first, first + 1, Reason.REJECTED)
    assert settled(front.leader.said()) == [
        (11, Reason.REJECTED, 8, 9),
        (11, Reason.REJECTED, 3, 5),
    ]


@pytest.mark.parametrize(
    ("kind", "say"),
    [
        (Kind.CALL, lambda front: front.session.tell("get")),
        (Kind.PUBLISH, lambda front: front.leader.queue().publish(records("a"), True)),
        (Kind.PUBLISH, _publish_to_an_exchange),
        (Kind.REPLY, lambda front: front.session.send_reply(b"address", records("a"))),
        (Kind.TRANSACTION, lambda front: front.session.commit([], 0, print, print)),
    ],
    ids=["call", "publish", "publish to an exchange", "reply", "transaction"],
)
async def test_what_was_settled_goes_ahead_of_what_is_sent_next(
    front: Front, kind: Kind, say: Callable[[Front], object]
) -> None:
    front.one.settle(5, 6)
    front.one.give_back(6, 7, RETURNED)
    say(front)
    front.one.settle(7, 8)
    said = [each.kind for each in front.leader.said() if each.kind is not Kind.QUEUE]
    assert said == [Kind.SETTLE, Kind.RETURN, kind, Kind.SETTLE]


def test_of_several_returns_the_last_lets_the_partition_go_on(front: Front) -> None:
    front.one.give_back(5, 6, RETURNED)
    front.other.give_back(9, 10, RETURNED)
    front.one.give_back(4, 5, RETURNED)
    front.one.give_back(0, 2, FAILED)
    assert front.returned() == [
        (11, RETURNED.value | MORE, 4, 6),
        (12, RETURNED.value | MORE, 9, 10),
        (11, FAILED.value, 0, 2),
    ]
    front.one.give_back(7, 8)
    assert front.returned() == [(11, UNUSED.value, 7, 8)]


def test_a_pause_lasts_over_turns_until_all_consumers_have_returned_theirs(front: Front) -> None:
    front.one.pause()
    front.other.pause()
    assert front.returned() == [(11, UNUSED.value | MORE, 0, 0)]
    front.one.give_back(0, 2, FAILED)
    front.one.give_back(4, 6, FAILED)
    assert front.returned() == [(11, FAILED.value | MORE, 0, 2)]
    front.one.resume()
    assert front.returned() == []
    front.other.give_back(2, 4, FAILED)
    assert front.returned() == [(11, FAILED.value | MORE, 4, 6)]
    front.other.resume()
    assert front.returned() == [(12, FAILED.value, 2, 4)]
    assert front.source.woken == 2


def test_a_pause_ends_by_whom_it_began(front: Front) -> None:
    # The leader may have forgotten one of them, and takes its series for none.
    front.one.pause()
    front.other.pause()
    front.one.resume()
    front.other.resume()
    assert front.returned() == [(11, UNUSED.value | MORE, 0, 0), (11, UNUSED.value, 0, 0)]


def test_a_pause_without_returns_ends(front: Front) -> None:
    front.one.pause()
    front.one.resume()
    assert front.returned() == [(11, UNUSED.value | MORE, 0, 0), (11, UNUSED.value, 0, 0)]


def test_several_pauses_of_one_consumer_end_with_the_last(front: Front) -> None:
    front.one.pause()
    front.one.pause()
    front.one.give_back(0, 2)
    front.one.resume()
    front.one.give_back(4, 6)
    front.one.resume()
    assert front.returned() == [
        (11, UNUSED.value | MORE, 0, 0),
        (11, UNUSED.value | MORE, 0, 2),
        (11, UNUSED.value, 4, 6),
    ]


def test_within_a_turn_the_pause_goes_ahead_of_the_departure(front: Front) -> None:
    front.one.pause()
    front.session.tell("detach", [11])
    front.one.give_back(0, 2, FAILED)
    front.one.give_back(4, 6, FAILED)
    front.one.resume()
    said = front.leader.said()
    kinds = [Kind.RETURN, Kind.CALL, Kind.RETURN, Kind.RETURN]
    assert [each.kind for each in said] == kinds
    assert [each.flags & MORE for each in said] == [MORE, 0, MORE, 0]


def test_of_a_lost_session_nothing_is_settled_or_returned(front: Front) -> None:
    front.one.pause()
    front.one.settle(0, 1)
    front.one.give_back(1, 2)
    assert front.one.counters is front.counters
    front.session.lost("cut")
    front.leader.open()
    front.one.resume()
    front.one.settle(2, 3)
    front.one.give_back(3, 4)
    front.other.pause()
    front.other.resume()
    assert front.one.redeliver(5, 8, 1, lambda: None) == (3, ())
    assert front.leader.said() == []
    assert front.one.counters is UNCOUNTED


def test_a_redelivery_is_asked_of_the_leader(front: Front) -> None:
    assert front.one.redeliver(5, 8, 1, lambda: None) == (3, ())
    (call,) = front.leader.said()
    span = {"consumer": 11, "partition": 3, "first": 5, "end": 8}
    assert (call.subject, call.number, call_of(call)) == (10, 0, ["redeliver", span])


def test_counts_of_deliveries_are_known_while_they_are_handed_on(front: Front) -> None:
    front.one.counted({5: 2, 6: 1})
    front.one.got(9, 4)
    assert [front.one.delivery_count(offset) for offset in (5, 6, 7, 9)] == [2, 1, 0, 4]
    assert front.one.delivery_count(9) == 0
