"""What one transaction will have published, counted when it is appended."""

from routelog.vhosts import MessageCounters, VhostCounters


class CommitCounts:
    """Counts of a plan that is made.

    Args:
        channel: its counters.
        vhost: of the exchanges.
    """

    def __init__(self, channel: MessageCounters, vhost: VhostCounters) -> None:
        self._channel = channel
        self._vhost = vhost
        self._published: dict[bytes, tuple[int, int]] = {}
        self._returned = self._dropped = 0

    def published(self, exchange: bytes, count: int, routed: int) -> None:
        """Messages are planned, for so many queues, summed over the messages."""
        before = self._published.get(exchange, (0, 0))
        self._published[exchange] = before[0] + count, before[1] + routed

    def unroutable(self, count: int, mandatory: bool) -> None:
        """Messages of them reach no queue."""
        if mandatory:
            self._returned += count
        else:
            self._dropped += count

    def carry_out(self) -> None:
        """The plan is appended."""
        for exchange, (count, routed) in self._published.items():
            self._channel.published_to(exchange, count)
            self._vhost.exchange(exchange.decode()).published(count, routed)
        if self._returned:
            self._channel.unroutable(self._returned, True)
        if self._dropped:
            self._channel.unroutable(self._dropped, False)
