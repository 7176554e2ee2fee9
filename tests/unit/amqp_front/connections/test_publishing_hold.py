"""What a held connection is told, and that it is told in pairs."""

from typing import Any

from pamqp import commands

from routelog.amqp_front.connections.publishing_hold import PublishingHold
from routelog.broker.waiting.gate import Held


class FakeGate:
    closed = True
    reasons = frozenset({"disk"})

    def __init__(self) -> None:
        self.held: list[Held] = []

    def hold(self, connection: Held) -> None:
        self.held.append(connection)

    def forget(self, connection: Held) -> None:
        self.held.remove(connection)


class Owner:
    def __init__(self, *, tells: bool = True) -> None:
        self.gate: Any = FakeGate()
        self.sent: list[tuple[Any, dict[str, Any]]] = []
        self.changes: list[bool] = []
        self.hold = PublishingHold(self)
        self.hold.tells = tells

    def send_method(self, kind: type[Any], **values: Any) -> None:
        self.sent.append((kind, values))

    def hold_changed(self) -> None:
        self.changes.append(self.hold.active)


def test_a_connection_is_held_once_and_let_go() -> None:
    owner = Owner()
    assert owner.hold.reasons == set()
    owner.hold.begin(owner.gate)
    owner.hold.begin(owner.gate)
    assert owner.gate.held == [owner.hold]
    assert owner.hold.reasons == {"disk"}
    owner.hold.let_go()
    assert owner.hold.reasons == set()
    assert owner.changes == [True, False]
    assert owner.sent == []


def test_the_client_hears_of_both_ends_once() -> None:
    owner = Owner()
    owner.hold.begin(owner.gate)
    owner.hold.tell_blocked("low on disk")
    owner.hold.tell_blocked("low on memory")
    owner.hold.let_go()
    owner.hold.begin(owner.gate)
    owner.hold.let_go()
    assert owner.sent == [
        (commands.Connection.Blocked, {"reason": "low on disk"}),
        (commands.Connection.Unblocked, {}),
    ]


def test_a_client_that_announced_nothing_hears_nothing() -> None:
    owner = Owner(tells=False)
    owner.hold.begin(owner.gate)
    owner.hold.tell_blocked("low on disk")
    owner.hold.let_go()
    assert owner.sent == []


def test_a_connection_that_ends_leaves_the_gate_and_hears_nothing_more() -> None:
    owner = Owner()
    owner.hold.leave()
    assert owner.changes == []
    owner.hold.begin(owner.gate)
    owner.hold.tell_blocked("low on disk")
    owner.hold.leave()
    owner.hold.leave()
    assert owner.gate.held == []
    assert owner.changes == [True, False]
    assert len(owner.sent) == 1
