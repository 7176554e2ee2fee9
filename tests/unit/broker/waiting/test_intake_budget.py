"""What is charged to whom, who waits, who is refused, and that all of it comes back."""

from typing import Any

import pytest
from support.intake_samples import NO_LIMIT, budget

from routelog.broker.waiting.intake_budget import Charge, IntakeBudget, IntakeFull, IntakeShare


class Waiter:
    """Notes that it is let go."""

    def __init__(self) -> None:
        self.let_go_count = 0

    def let_go(self) -> None:
        self.let_go_count += 1

    def tell_blocked(self, reason: str) -> None:
        """Nobody asks."""


def refused(share: IntakeShare, size: int = 1) -> str:
    with pytest.raises(IntakeFull) as caught:
        share.charge(size)
    return str(caught.value)


def assert_nothing_charged(node: IntakeBudget) -> None:
    assert (node.node.bytes, node.full) == (0, 0)


def test_a_charge_is_given_back_when_nobody_holds_it() -> None:
    changes: list[int] = []
    node = budget()
    node.on_change = changes.append
    share = node.share("one")
    charge = share.charge(100)
    charge.grow(50)
    assert (share.kept, node.node.bytes, changes) == (150, 150, [100, 50])
    del charge
    assert (share.kept, node.node.bytes, sum(changes)) == (0, 0, 0)


def test_one_body_of_any_size_is_taken_and_the_next_one_refused_where_waiting_cannot_help() -> None:
    node = budget(connection=100)
    share = node.share("one")
    large = share.charge(1_000)
    assert node.full == 1
    assert share.closed_gate() is None
    assert "1000 bytes" in refused(share)
    other = node.share("one").charge(50)
    del large
    assert share.charge(10).bytes == 10
    del other
    assert_nothing_charged(node)


@pytest.mark.parametrize("limits", [{"user": 100}, {"node": 100}])
def test_who_keeps_nothing_waits_and_goes_on_when_others_have_ended(limits: dict[str, int]) -> None:
    node = budget(**limits)
    first, second = node.share("one"), node.share("one")
    kept = first.charge(100)
    gate = second.closed_gate()
    assert gate is not None
    waiter = Waiter()
    gate.hold(waiter)
    assert first.closed_gate() is None
    refused(first)
    del kept
    assert waiter.let_go_count == 1
    assert second.closed_gate() is None
    assert_nothing_charged(node)


def test_a_user_at_its_limit_is_in_nobody_elses_way() -> None:
    node = budget(user=100, node=200)
    share, other = node.share("one"), node.share("other")
    kept = share.charge(150)
    assert share.level_is_full
    assert not other.level_is_full
    assert node.share("one").closed_gate() is not None
    assert other.closed_gate() is None
    more = other.charge(10)
    del kept, more
    assert_nothing_charged(node)


def test_a_transaction_that_grows_beyond_a_limit_is_refused() -> None:
    node = budget(connection=100)
    charge: Charge | None = node.share("one").charge(60)
    assert charge is not None
    with pytest.raises(IntakeFull):
        charge.grow(40)
    charge = None
    assert_nothing_charged(node)


def test_what_a_client_does_not_read_counts_and_makes_others_wait() -> None:
    node = budget(user=100)
    slow, other = node.share("one"), node.share("one")
    slow.leave_unread(60)
    slow.leave_unread(120)
    assert node.node.bytes == 120
    assert other.closed_gate() is not None
    assert slow.closed_gate() is not None, "it keeps nothing that it would have to end"
    slow.leave_unread(0)
    assert_nothing_charged(node)


def test_a_user_is_one_level_as_long_as_he_has_connections(caplog: Any) -> None:
    node = budget(user=10, node=NO_LIMIT)
    kept = node.share("one").charge(10)
    assert node.share("one").closed_gate() is not None
    assert "user 'one' has 10 bytes" in caplog.text
    del kept
    assert_nothing_charged(node)
