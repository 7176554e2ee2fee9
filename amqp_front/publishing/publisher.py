# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The publishing side of a channel: runs of publishes, their returns and their confirms."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import cython

from routelog.amqp_front.publishing.confirm_sender import ConfirmSender
from routelog.amqp_front.publishing.firehose import traces
from routelog.amqp_front.publishing.publish_checks import checked, is_checked
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.publishing.run_messages import RunMessages
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    FRAME_ERROR,
    NOT_IMPLEMENTED,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.amqp_front.wire.single_run import (
    LOOKED_AT_MAX,
    at_once,
    without_blind_copies,
)
from routelog.log_backend import (
    NOTHING,
    JournalFailed,
    Lane,
    Receipt,
)
from routelog.vhosts import Decision, Recipient, ResourceKind, Untaken, Verb
from routelog.vhosts.publishing.client_publish import ClientPublish


@cython.final
@cython.cclass
class Publisher:
    """Publishes of one channel.

    Attributes:
        confirming: confirm.select was called.
        carried: how many messages of the last run were published; the others come again in another turn.
        returns: what its mandatory messages come back by.
        fan_out: what was published and is on its way to its queues; publish nothing before it has arrived.
    """

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._vhost = channel.vhost
        self._clock = channel.services.clock
        self._counters = channel.counters
        self.confirming = False
        self.carried = 0
        self.fan_out: asyncio.Future[None] | None = None
        self._confirms = ConfirmSender(channel)
        self.returns = ReturnSender(channel)
        self._is_closed = False
        self._known_version = -1
        self._known_revision = -1
        self._permissions = channel.permissions
        self._routing = channel.vhost.routing
        self._scheduler = channel.services.scheduler
        is_reply = channel.services.replies.is_open
        self._core = ClientPublish(self._vhost, self._scheduler, self._clock, is_reply)
        self._appending = self._core.appending
        self._needed = NOTHING  # for what is under way

    # -- publishing

    def begin(self, exchange: bytes, immediate: bool) -> None:
        """Check what a publish may do whose content is still to come: none of it is kept otherwise.

        Raises:
            SoftError: 403, 404.
            HardError: 540 for immediate.
        """
        self._check_exchange(exchange)
        if immediate:
            raise HardError(NOT_IMPLEMENTED, "immediate=true")

    def check(self, run: PublishRun) -> Iterator[PublishRun]:
        """Check what a run may do; gives the runs to carry out, nearly always just itself.

        Raises:
            SoftError: 403, 404, 406; what came before a message that is refused has been given.
            HardError: 540 for immediate.
        """
        self._check_flags(run)
        return checked(run, self._core.exchange, self._channel)

    @cython.locals(run=PublishRun)
    def carry(self, run: PublishRun) -> int:
        """Check a run and carry it out, as far as one turn of the loop goes; see `check` and `publish`.

        Returns:
            How many of its messages were carried out, at least 1.
        """
        self._check_flags(run)
        if is_checked(run, self._channel):
            return self._carry_checked(run)
        self.publish(run)
        return self.carried

    def _carry_checked(self, run: PublishRun) -> int:
        done = 0
        while True:
            part = run
            if run.count > LOOKED_AT_MAX:
                part = run.part(done, min(LOOKED_AT_MAX, run.count - done))
            for allowed in checked(part, self._core.exchange, self._channel):
                self.publish(allowed)
                done += self.carried
                if self.carried < allowed.count or self.fan_out is not None:
                    return done
                if self._appending.behind is not None and not self.confirming:
                    return done  # the connection waits: once, as it goes on when it has
            if done == run.count or self._scheduler.is_over():
                return done

    @cython.ccall
    @cython.locals(run=PublishRun)
    def publish(self, run: PublishRun) -> Receipt:
        """Carry out a checked run, or as much of it as one turn of the loop is to bear: see `carried`.

        Returns:
            What its confirm waits for.
        """
        self.carried = run.count
        mandatory = run if run.mandatory else None
        self._appending.begin(self.confirming)
        try:
            needed = self._publish(run)
        except JournalFailed as error:
            self._lose(error, mandatory)
            return NOTHING
        appending = self._appending
        if appending.is_under_way or (appending.outcomes and not self._learned(mandatory)):
            self._needed = needed
            if mandatory is not None:
                mandatory = run.kept(self.carried)  # others will use its buffer
            if self._appending.is_under_way:
                self.fan_out = self._scheduler.run(self._reach_others(mandatory), Lane.JOBS)
            else:
                self.fan_out = asyncio.ensure_future(self._await_outcomes(mandatory))
            self._channel.wait_for(self.fan_out)
        else:
            self._arrived(needed, mandatory)
        return needed

    def _reach_others(self, mandatory: PublishRun | None) -> Iterator[None]:
        # Some have it while others do not yet, as in RabbitMQ. All get it, even if the channel is closed.
        try:
            while self._appending.is_under_way:
                self._needed = self._needed.joined(self._appending.go_on())
                if self._appending.is_under_way:
                    yield
            while not self._learned(mandatory):
                yield
        except JournalFailed as error:
            self.fan_out = None
            self._lose(error, mandatory)
            return
        self.fan_out = None
        self._arrived(self._needed, mandatory)

    def _learned(self, mandatory: PublishRun | None) -> bool:
        # Whether all queues have said what they do not take, or nobody is told.
        if self.confirming or mandatory is not None:
            return self._appending.learn_outcomes()
        for untaken, *_ in self._appending.outcomes:
            untaken.add_done_callback(self._count_dropped)
        return True

    def _count_dropped(self, outcome: "asyncio.Future[Untaken]") -> None:
        dropped = len(outcome.result().returned)
        if dropped:
            self._counters.unroutable(dropped, False)

    async def _await_outcomes(self, mandatory: PublishRun | None) -> None:
        await asyncio.wait([untaken for untaken, *_ in self._appending.outcomes])
        self._appending.learn_outcomes()
        self.fan_out = None
        self._arrived(self._needed, mandatory)

    def _lose(self, error: JournalFailed, mandatory: PublishRun | None) -> None:
        self._appending.refused.clear()
        self._appending.returned.clear()
        self._appending.outcomes.clear()
        if not self.confirming:
            raise error
        if not self._is_closed:
            if mandatory is not None and self._channel.returns_refused:
                self._send_back(mandatory, range(self.carried), f"unavailable: {error}")
            self._confirms.lost(self.carried)

    @cython.cfunc
    def _arrived(self, needed: Receipt, mandatory: PublishRun | None) -> None:
        refused, returned = self._appending.refused, self._appending.returned
        if refused and mandatory is not None and self._channel.returns_refused:
            self._return_refused(mandatory, refused)
        if returned:
            self._appending.returned = []
            self._return(mandatory, returned)
        self._counters.published_to(self._core.name, self.carried)
        self._core.counters.published(self.carried, self._appending.routed)
        if self._appending.behind is not None:
            self._wait_for_consumers(self._appending.behind)
        if self.confirming and not self._is_closed:
            self._confirms.published(self.carried, refused, needed)
        if refused:
            refused.clear()

    def _wait_for_consumers(self, queue: Recipient) -> None:
        if not self.confirming:
            self._channel.wait_for_consumers(queue)
        elif not self._is_closed:
            self._confirms.wait_at(self._channel.services.consumer_gates.of(queue))

    @cython.cfunc
    @cython.locals(run=PublishRun)
    def _publish(self, run: PublishRun) -> Receipt:
        core = self._core
        if run.exchange != core.name:  # it was not checked here
            core.turn_to(run.exchange, run.exchange.decode())
            self._known_version = -1
        key, listeners = run.routing_key, self._vhost.listeners
        if key is not None and not listeners and not run.property_flags & CARBON_COPY:
            queues = core.queues_of(key)
            if queues is not None:
                records = run.records(record_attributes(run), self._clock.now())
                return self._appending.append_run(records, queues, range(run.count))
        if listeners:
            run = at_once(run)
        messages = RunMessages(run)
        decision = core.decide(messages, 0, run.count)
        needed = self._carry_out(run, messages, decision)
        while decision.passage is not None and decision.end < min(run.count, LOOKED_AT_MAX):
            # What becomes of the next message hung on one of these.
            decision = core.decide(messages, decision.end, run.count)
            needed = needed.joined(self._carry_out(run, messages, decision))
        return needed

    @cython.cfunc
    def _carry_out(self, run: PublishRun, messages: RunMessages, decision: Decision) -> Receipt:
        self.carried = decision.end
        if decision.replies:
            bare = without_blind_copies(run)
            for address, indexes in decision.replies.items():
                self._channel.services.replies.send(address, bare, indexes, self._clock)
        if decision.returned:
            self._return(run if run.mandatory else None, decision.returned)
        needed: Receipt = self._core.carry_out(messages, decision)
        if self._vhost.listeners:
            for tell in traces(self._vhost.listeners, self._channel, run, decision):
                tell()
        return needed

    def _return(self, mandatory: PublishRun | None, indexes: Sequence[int]) -> None:
        self._counters.unroutable(len(indexes), mandatory is not None)
        if mandatory is not None:
            self._send_back(mandatory, indexes)

    def _return_refused(self, run: PublishRun, refused: Mapping[int, Recipient]) -> None:
        by_queue: dict[Recipient, list[int]] = {}
        for at, queue in sorted(refused.items()):
            by_queue.setdefault(queue, []).append(at)
        for queue, indexes in by_queue.items():
            self._send_back(run, indexes, f"maxlen: {queue}")

    def _send_back(self, run: PublishRun, indexes: Sequence[int], refusal: str = "") -> None:
        if self.confirming and not self._is_closed:
            self._confirms.catch_up()  # of what came before
        self.returns.send(run, indexes, refusal)

    # -- checks

    @cython.cfunc
    @cython.locals(run=PublishRun)
    def _check_flags(self, run: PublishRun) -> None:
        self._check_exchange(run.exchange)
        if run.immediate:
            raise HardError(NOT_IMPLEMENTED, "immediate=true")

    @cython.cfunc
    def _check_exchange(self, name: bytes) -> None:
        version, revision = self._routing.version, self._permissions.current()
        if name != self._core.name or version != self._known_version:
            exchange = _decoded(name)
            if self._routing.exchange(exchange).internal:
                where = f"'{exchange}' in vhost '{self._vhost.name}'"
                raise SoftError(ACCESS_REFUSED, f"cannot publish to internal exchange {where}")
            self._core.turn_to(name, exchange)
            self._known_version = version
        elif revision == self._known_revision:
            return
        self._known_revision = -1
        self._permissions.authorize(ResourceKind.EXCHANGE, self._core.exchange, Verb.WRITE)
        self._known_revision = revision

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for their confirm."""
        return self._confirms.unconfirmed

    def close(self) -> None:
        """The channel is gone: confirm and return nothing more."""
        self._is_closed = True
        self._confirms.close()
        self.returns.close()


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise HardError(FRAME_ERROR, "a short string is not UTF-8") from None
