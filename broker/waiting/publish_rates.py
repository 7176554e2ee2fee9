"""Publish rates: connections that publish faster than an operator allows wait; nothing is refused.

    PublishRates       of the node
      PublishRate      of a user or a vhost: token buckets for messages and for bytes of their bodies
        PublishPace    of a connection of that user in that vhost: where it waits

A run of publishes is carried out whole and then taken from the buckets, which may owe tokens afterwards. With
its next publish the connection waits until these have come. So a connection has at most one run that is not
paid for, connections go on one after the other, and all together publish at the rate. A new one waits for the
debt that it finds, before its first publish: an application that connects for each message is no faster.
"""

from collections.abc import Set
from functools import partial
from weakref import WeakValueDictionary

from routelog.broker.waiting.gate import TELL_SECONDS, Held
from routelog.log_backend import CallLater, Clock, Timer
from routelog.vhosts import (
    MAX_PUBLISH_BYTES_RATE,
    MAX_PUBLISH_RATE,
    CountOf,
    Limits,
    SharedCounts,
    UserDirectory,
    VhostDirectory,
)

BURST_SECONDS = 1.0  # what comes in this time may be published at once
RUN_SECONDS = 0.01  # a run is at most what comes in this time: long waits would come in lumps
ASSUMED_BODY_BYTES = 1_024  # of a connection's first messages, to limit its first run

_NO_REASON: frozenset[str] = frozenset()
# By kind of a rate's owner
_COUNTS = {
    "user": (CountOf.USER_MESSAGES, CountOf.USER_BYTES),
    "vhost": (CountOf.VHOST_MESSAGES, CountOf.VHOST_BYTES),
}


class TokenBucket:
    """Tokens that come at a rate: as many as come in BURST_SECONDS, at most; below zero, they are owed.

    Attributes:
        limit: of all nodes, by the second.
        rate: this node's share of it.
        taken: tokens, since the limit was shared last.
    """

    __slots__ = ("_filled", "_tokens", "limit", "rate", "taken")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self.rate: float = limit
        self.taken = 0
        self._tokens = limit * BURST_SECONDS
        self._filled = now

    def take(self, count: int, now: float) -> float:
        """Take tokens, whether they are there or not.

        Returns:
            Seconds until none is owed; 0: none is.
        """
        filled = self._tokens + (now - self._filled) * self.rate
        self._tokens = min(filled, self.rate * BURST_SECONDS) - count
        self._filled = now
        self.taken += count
        return max(-self._tokens / self.rate, 0.0)

    def share(self, others: int, nodes: int, now: float) -> None:
        """Leave to other nodes what they have taken of late, but keep an equal share.

        So one node has what others do not need, and a node that begins to publish takes its part from them.
        """
        self.take(0, now)
        self.taken = 0
        self.rate = max(self.limit - others, self.limit / nodes)


class PublishRate:
    """The rate of one user or vhost, who may have no limit.

    Attributes:
        kind, name: such as "user" and "ann".
        is_limited: an operator has set one.
        waited_seconds: how long connections have waited, all together.
        waiting: those that do now.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self.is_limited = False
        self.waited_seconds = 0.0
        self.waiting: set[PublishPace] = set()

    @property
    def owner(self) -> str:
        """Whose rate it is."""
        return f"{self.kind} '{self.name}'"

    def limit(self, limits: Limits, now: float) -> None:
        """Set other limits."""
        self._messages = _bucket(self._messages, limits.get(MAX_PUBLISH_RATE, -1), now)
        self._bytes = _bucket(self._bytes, limits.get(MAX_PUBLISH_BYTES_RATE, -1), now)
        self.is_limited = self._messages is not None or self._bytes is not None

    def take(self, messages: int, body_bytes: int, now: float) -> float:
        """Take what was published; returns seconds until nothing is owed."""
        owed = 0.0
        if self._messages is not None:
            owed = self._messages.take(messages, now)
        if self._bytes is not None:
            owed = max(owed, self._bytes.take(body_bytes, now))
        return owed

    def share(self, counts: SharedCounts, now: float) -> None:
        """Tell other nodes what was taken, and leave them what they have taken."""
        buckets = zip(_COUNTS[self.kind], (self._messages, self._bytes), strict=True)
        for of, bucket in buckets:
            counts.put(of, self.name, 0 if bucket is None else bucket.taken)
            if bucket is not None:
                bucket.share(counts.others.get((of, self.name), 0), counts.nodes, now)

    def cost(self, messages: int, body_bytes: int) -> float:
        """In how many seconds so much may be published; 0: there is no limit."""
        of_messages = 0.0 if self._messages is None else messages / self._messages.rate
        return max(of_messages, 0.0 if self._bytes is None else body_bytes / self._bytes.rate)


def _bucket(before: TokenBucket | None, rate: int, now: float) -> TokenBucket | None:
    if before is not None and before.limit == rate:
        return before
    return TokenBucket(rate, now) if rate > 0 else None


class PublishPace:
    """How one connection publishes; where it waits, as at a gate of its own.

    Attributes:
        run_messages: how many messages a run may have; 0: no limit.
        reasons: why it waits, when it has for long.
    """

    __slots__ = (
        "_changes",
        "_held",
        "_node",
        "_rates",
        "_ready_at",
        "_timer",
        "_waited",
        "_waited_until",
        "_waits_for",
        "reasons",
        "run_messages",
    )

    def __init__(self, node: "PublishRates", rates: tuple[PublishRate, ...]) -> None:
        self._node = node
        self._rates = rates
        self._waits_for = rates[0]
        self._ready_at = 0.0  # when what it has published is paid for
        self._changes = -1  # of limits, before that was found
        self._held: Held | None = None
        self._timer: Timer | None = None
        self._waited = 0.0  # in all, since it was told last or was within its rate
        self._waited_until = 0.0
        self.reasons: Set[str] = _NO_REASON
        self.run_messages = self._run_of(1, ASSUMED_BODY_BYTES)

    def owed_seconds(self) -> float:
        """How long it has to wait before it publishes more; 0: not at all."""
        now = self._node.clock.monotonic()
        if self._changes != self._node.changes:
            self._take(0, 0, now)
        return max(0.0, self._ready_at - now)

    @property
    def is_limited(self) -> bool:
        """Whether its user, or its vhost, has a limit."""
        return any(rate.is_limited for rate in self._rates)

    def published(self, messages: int, body_bytes: int) -> None:
        """Count what the connection has published."""
        self._take(messages, body_bytes, self._node.clock.monotonic())
        self.run_messages = self._run_of(messages, body_bytes)

    def _take(self, messages: int, body_bytes: int, now: float) -> None:
        owed = [(rate.take(messages, body_bytes, now), rate) for rate in self._rates]
        seconds, self._waits_for = max(owed, key=lambda each: each[0])
        self._ready_at = now + seconds
        self._changes = self._node.changes

    def _run_of(self, messages: int, body_bytes: int) -> int:
        cost = max(rate.cost(messages, body_bytes) for rate in self._rates)
        return max(1, int(messages * RUN_SECONDS / cost)) if cost else 0

    def refusal(self) -> str:
        """Why it waits, or has to."""
        return f"publish rate of {self._waits_for.owner}"

    # -- as a gate

    def hold(self, held: Held) -> None:
        """See `Gate`."""
        now = self._node.clock.monotonic()
        if now - self._waited_until > TELL_SECONDS:
            self._waited, self.reasons = 0.0, _NO_REASON
        self._held = held
        self.owed_seconds()  # by the limits of now, which do not change before `end_wait`
        self._waits_for.waiting.add(self)
        self._wait()

    def _wait(self) -> None:
        seconds = min(self._left_seconds(), TELL_SECONDS - self._waited)
        self._timer = self._node.call_later(seconds, partial(self._has_waited, seconds))

    def _has_waited(self, seconds: float) -> None:
        self._waited += seconds
        self._waits_for.waited_seconds += seconds
        if self._waited >= TELL_SECONDS and self._held is not None:
            self._waited = 0.0
            self.reasons = frozenset((self.refusal(),))
            self._held.tell_blocked(self.refusal())
        if self._left_seconds():
            self._wait()
        else:
            self.end_wait()

    def _left_seconds(self) -> float:
        return max(0.0, self._ready_at - self._node.clock.monotonic())

    def end_wait(self) -> None:
        """Let the connection go on."""
        held = self._held
        self._leave()
        self._waited_until = self._node.clock.monotonic()
        if held is not None:
            held.let_go()

    def forget(self, held: Held) -> None:
        """See `Gate`."""
        self._leave()

    def _leave(self) -> None:
        self._held = None
        self._waits_for.waiting.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PublishRates:
    """The rates of all users and vhosts.

    Attributes:
        limited: those that have limits, with what they owe, even if nobody is connected.
        are_set: there is one; else nobody looks at paces.
        changes: how often limits were set.
    """

    def __init__(
        self,
        users: UserDirectory,
        vhosts: VhostDirectory,
        counts: SharedCounts,
        clock: Clock,
        call_later: CallLater,
    ) -> None:
        self._counts = counts
        self.clock = clock
        self.call_later = call_later
        self.limited: set[PublishRate] = set()
        self.are_set = False
        self.changes = 0
        self._rates: WeakValueDictionary[tuple[str, str], PublishRate] = WeakValueDictionary()
        users.on_limits = partial(self._limit, "user")
        vhosts.on_limits = partial(self._limit, "vhost")
        for user in users.users():
            self._limit("user", user.name, users.limits(user.name))
        for vhost in vhosts.all():
            self._limit("vhost", vhost.name, vhost.limits)

    def pace(self, user: str, vhost: str) -> PublishPace:
        """The pace of a new connection."""
        return PublishPace(self, (self._rate("user", user), self._rate("vhost", vhost)))

    def share(self) -> None:
        """Share the limits with other nodes, by what each has published since the last call, a second ago."""
        # Who waits goes on as found before: else new publishes would overtake him, again and again.
        now = self.clock.monotonic()
        for rate in self.limited:
            rate.share(self._counts, now)

    def _rate(self, kind: str, name: str) -> PublishRate:
        rate = self._rates.get((kind, name))
        if rate is None:
            rate = self._rates[kind, name] = PublishRate(kind, name)
        return rate

    def _limit(self, kind: str, name: str, limits: Limits) -> None:
        rate = self._rate(kind, name)
        rate.limit(limits, self.clock.monotonic())
        if rate.is_limited:
            self.limited.add(rate)
        else:
            self.limited.discard(rate)
            rate.share(self._counts, self.clock.monotonic())
        self.are_set = bool(self.limited)
        self.changes += 1
        for pace in list(rate.waiting):  # by what is owed now, it may go on
            pace.end_wait()
