"""The lease of a consumer's deliveries, with a clock that goes when it is told."""

from support.queue_samples import Turns

from routelog.amqp_front.consuming.delivery_lease import MARKS, DeliveryLease


class Channel:
    """A consumption that writes down what ends."""

    def __init__(self) -> None:
        self.next_tag = 1
        self.settled = 1  # tags below are
        self.ended: list[int] = []

    def end_leases(self, holder: str, end_tag: int) -> int:
        assert holder == "consumer"
        if end_tag > self.settled:
            self.ended.append(end_tag)
            self.settled = end_tag
        return self.next_tag - self.settled


def leased(seconds: list[float | None]) -> tuple[Turns, Channel, DeliveryLease[str]]:
    turns, channel = Turns(), Channel()
    lease = DeliveryLease(
        channel, "consumer", lambda: seconds[0], turns.clock.monotonic, turns.call_later
    )
    return turns, channel, lease


def test_a_delivery_ends_when_its_time_is_over_and_at_most_a_quarter_later():
    for timeout in (0.5, 8.0, 400.0):
        for wait in (0.0, timeout / 3):
            turns, channel, lease = leased([timeout])
            channel.next_tag = 2
            lease.begin()
            turns.pass_seconds(wait)
            channel.next_tag = 3
            turns.pass_seconds(timeout - 0.001)
            assert not channel.ended or (wait and channel.ended == [2])
            turns.pass_seconds(timeout * 2 / MARKS + 0.001)
            assert channel.ended[-1] == 3


def test_nothing_is_watched_when_nothing_is_held():
    turns, channel, lease = leased([1.0])
    channel.next_tag = 2
    lease.begin()
    channel.settled = 2
    turns.pass_seconds(1.0)
    assert (lease.runs, turns.waiting) == (False, 0)


def test_a_timeout_that_is_taken_away_ends_no_lease():
    seconds: list[float | None] = [1.0]
    turns, channel, lease = leased(seconds)
    channel.next_tag = 2
    lease.begin()
    seconds[0] = None
    turns.pass_seconds(5.0)
    assert (channel.ended, lease.runs) == ([], False)
    lease.begin()
    assert not lease.runs
    seconds[0] = 2.0
    lease.begin()
    turns.pass_seconds(3.0)
    assert channel.ended == [2]


def test_a_closed_channel_has_no_leases():
    turns, channel, lease = leased([1.0])
    channel.next_tag = 2
    lease.begin()
    turns.pass_seconds(0.5)
    lease.stop()
    turns.pass_seconds(5.0)
    assert (channel.ended, turns.waiting) == ([], 0)
