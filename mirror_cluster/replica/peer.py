"""What a leader knows of one follower in the session that it has open."""

from dataclasses import dataclass

from routelog.mirror_cluster.protocol.block import Mark
from routelog.mirror_cluster.protocol.shard_record import Member

HAS_ENDED = "has ended"


@dataclass(slots=True)
class Peer:
    """A follower.

    Attributes:
        sent: blocks up to here were sent.
        durable: the follower's journal is on its disk, and is the leader's, up to here; None before it
            has answered that it ends at the common point.
        stamp: the leader's time of the newest message that the follower has answered.
        leaving: why nobody may wait for it, in words; empty: it stays. HAS_ENDED lasts until it answers again.
        probe: a time, and the leader's end then: durable up to there, it had caught up at that time.
        shipped_at: when the newest message was sent.
    """

    member: Member
    session: int
    sent: int
    durable: int | None = None
    stamp: float = 0.0
    leaving: str = ""
    probe: tuple[float, int] | None = None
    shipped_at: float = 0.0

    @classmethod
    def opened(cls, member: Member, session: int, common: Mark) -> "Peer":
        """A session whose journals agree up to a block."""
        return cls(member, session, common.position)

    def acknowledged(self, durable: int, stamp: float) -> float | None:
        """The follower is durable up to here, having seen the message of that time.

        Returns:
            The last time at which it is known to have caught up, if that is news.
        """
        if self.leaving == HAS_ENDED:
            self.leaving = ""
        self.durable = max(durable, self.durable or 0)
        self.sent = max(self.sent, self.durable)
        self.stamp = max(self.stamp, stamp)
        if self.probe is None or self.probe[1] > self.durable or self.stamp < self.probe[0]:
            return None
        time, self.probe = self.probe[0], None
        return time
