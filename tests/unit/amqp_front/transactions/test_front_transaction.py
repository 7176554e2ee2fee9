"""A transaction at the front's end: its parts are sent together, and one answer is for all."""

from __future__ import annotations

import pytest
from support.queue_samples import records
from unit.vhosts.sessions.session_pipe import ScriptedLeader

from routelog.log_backend import Reason
from routelog.vhosts.errors import SessionLost, TransactionRefused
from routelog.vhosts.sessions import front_session
from routelog.vhosts.sessions.front_transaction import FrontTransaction
from routelog.vhosts.sessions.remote_partition import PartitionReturns, RemotePartition
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.sessions.session_message import PART, Kind, SessionMessage


class Client:
    """Sends transactions, and notes what becomes of them."""

    def __init__(self) -> None:
        self.leader = ScriptedLeader()
        self.leader.open()
        self.told: list[object] = []

    def begin(self) -> FrontTransaction:
        """A transaction of the session."""
        return FrontTransaction(self.leader.link.session)

    def send(self, transaction: FrontTransaction) -> None:
        """Send one."""
        transaction.send(lambda: self.told.append("committed"), self.told.append)

    def partition(self, queue: RemoteQueue) -> RemotePartition:
        """What something came from."""
        session = self.leader.session
        returns = PartitionReturns(session, 0)
        subject = session.subject_of(queue)
        return RemotePartition(session, 5, subject, 7, 0, queue.counters, queue, returns)


@pytest.fixture
def client() -> Client:
    return Client()


def kinds(said: list[SessionMessage]) -> list[tuple[Kind, int]]:
    return [(each.kind, each.flags) for each in said]


async def test_parts_go_together_behind_what_was_gathered(client: Client) -> None:
    queue = client.leader.queue()
    partition = client.partition(queue)
    client.leader.said()
    transaction = client.begin()
    transaction.publish(queue, records("a"))
    partition.settle(9, 10)
    for _ in transaction.settle(partition, [(1, 2), (2, 3), (3, 4)], Reason.REJECTED):
        pass
    client.send(transaction)
    said = client.leader.said()
    assert kinds(said) == [
        (Kind.SETTLE, Reason.ACKED),
        (Kind.PUBLISH, PART),
        (Kind.SETTLE, Reason.REJECTED | PART),
        (Kind.TRANSACTION, 0),
    ]
    assert (said[2].first, said[2].count, said[2].subject) == (1, 3, 5)
    assert said[1].number == 0
    client.leader.answers(said[3], None)
    assert client.told == ["committed"]


async def test_a_refusal_is_told_and_counts_nothing(client: Client) -> None:
    queue, transaction = client.leader.queue(), client.begin()
    transaction.publish(queue, records("a", "b"))
    client.send(transaction)
    client.leader.answers(client.leader.said()[-1], TransactionRefused("full"))
    assert [str(each) for each in client.told] == ["full"]
    assert not queue.counters.publish
    transaction = client.begin()
    transaction.publish(queue, records("a", "b"))
    client.send(transaction)
    client.leader.answers(client.leader.said()[-1], None)
    assert client.told[1:] == ["committed"]
    assert queue.counters.publish == 2


async def test_an_empty_one_is_committed_at_once(client: Client) -> None:
    client.send(client.begin())
    assert client.told == ["committed"]
    queue, transaction = client.leader.queue(), client.begin()
    queue.deleted = True
    transaction.publish(queue, records("a"))
    client.send(transaction)
    assert client.told == ["committed"] * 2
    assert client.leader.said() == []


async def test_its_bytes_are_unconfirmed_until_it_is_answered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_session, "WINDOW_BYTES", 1_000)
    full: list[bool] = []
    session = client.leader.session
    session.on_window = full.append
    queue, transaction = client.leader.queue(), client.begin()
    transaction.publish(queue, records("x" * 2_000))
    client.send(transaction)
    assert session.unconfirmed_bytes > 2_000
    client.leader.answers(client.leader.said()[-1], None)
    assert (full, session.unconfirmed_bytes) == ([True, False], 0)


async def test_a_lost_session_fails_it_before_and_behind(client: Client) -> None:
    queue, transaction, late = client.leader.queue(), client.begin(), client.begin()
    late.publish(queue, records("late"))
    transaction.publish(queue, records("a"))
    client.send(transaction)
    session = client.leader.session
    session.lost("cut")
    client.send(late)
    assert [type(each) for each in client.told] == [SessionLost] * 2
    assert session.unconfirmed_bytes == 0
    partition = client.partition(queue)
    assert not client.begin().settles(partition)
    with pytest.raises(SessionLost, match=r"what the transaction settles"):
        partition.settlement([(1, 2)], Reason.ACKED)
