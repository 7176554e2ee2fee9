"""The producer's view of its confirms: which of its messages the broker has taken over."""

from routelog.benchmarks.traffic.frames import ACK_BYTES, ACK_RECORD, CHANNEL, acks
from routelog.benchmarks.traffic.unexpected import unexpected

_ACK_HEAD = (1, CHANNEL, 13, 60, 80)


class ConfirmTally:
    """Counts confirmed publishes exactly, whatever mixture of single and multiple acks arrives.

    A run of single acks in order, the commonest answer of a fast broker, is compared as bytes.
    """

    def __init__(self) -> None:
        self._all_confirmed_to = 0
        self._confirmed_early: set[int] = set()
        self._rest = b""

    @property
    def confirmed(self) -> int:
        """Publishes taken over so far, each counted once."""
        return self._all_confirmed_to + len(self._confirmed_early)

    def feed(self, data: bytes) -> None:
        """Take the bytes of one read, which may end inside a frame.

        Raises:
            UnexpectedFrame: anything but an ack, a nack included.
            BrokerRefused: the broker closed the channel or the connection.
        """
        data = self._rest + data
        whole_bytes = len(data) // ACK_BYTES * ACK_BYTES
        self._rest = data[whole_bytes:]
        frames = data[:whole_bytes]
        if not self._take_ordered_singles(frames):
            self._take_each(frames)

    def _take_ordered_singles(self, frames: bytes) -> bool:
        count = len(frames) // ACK_BYTES
        if count < 4 or self._confirmed_early:
            return False
        first_tag = self._all_confirmed_to + 1
        if ACK_RECORD.unpack_from(frames)[5:7] != (first_tag, 0):
            return False
        if b"".join(acks(first_tag, count)) != frames:
            return False
        self._all_confirmed_to += count
        return True

    def _take_each(self, frames: bytes) -> None:
        for *head, tag, multiple, end in ACK_RECORD.iter_unpack(frames):
            if tuple(head) != _ACK_HEAD or end != 0xCE:
                raise unexpected("confirms", frames + self._rest)
            if multiple:
                self._settle_to(tag)
            elif tag > self._all_confirmed_to:
                self._confirmed_early.add(tag)
        self._close_gap()

    def _settle_to(self, tag: int) -> None:
        if tag <= self._all_confirmed_to:
            return
        self._all_confirmed_to = tag
        if self._confirmed_early:
            self._confirmed_early = {early for early in self._confirmed_early if early > tag}

    def _close_gap(self) -> None:
        while self._all_confirmed_to + 1 in self._confirmed_early:
            self._all_confirmed_to += 1
            self._confirmed_early.remove(self._all_confirmed_to)
