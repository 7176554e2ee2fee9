"""Rules of sessions, each switched off on purpose: the invariants of docs/internals/mirroring.md."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from typing import Any
from unittest.mock import patch

from routelog.broker.sessions.front_node import FrontNode
from routelog.log_backend import Reason, Records
from routelog.vhosts.sessions import hosted_session
from routelog.vhosts.sessions.batch_confirms import BatchConfirms
from routelog.vhosts.sessions.definition_barrier import DefinitionBarrier
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.hosted_consumer import HostedConsumer
from routelog.vhosts.sessions.hosted_session import HostedSession
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_consumer import RemoteConsumer
from routelog.vhosts.sessions.remote_partition import RemotePartition
from routelog.vhosts.sessions.session_message import (
    PART,
    WAITED,
    Kind,
    SessionMessage,
    batch_pieces,
    message_pieces,
    records_of,
)
from routelog.vhosts.sessions.unsettled import Unsettled

Patch = tuple[Any, str, Any]

_LOST = FrontSession.lost
_SEND_BATCH = FrontSession.send_batch
_REPLACE = LeaderLink._replace
_ADD = BatchConfirms.add
_SEND = HostedSession._send
_PUBLISH = HostedSession._publish
_TAKE = Unsettled.take
_SETTLE = RemotePartition.settle
_INIT_BARRIER = DefinitionBarrier.__init__
_FRESHEN = FrontNode._freshen
_ACTIONS = hosted_session._ACTIONS


def _confirms_at_its_end(self: FrontSession, reason: str) -> None:
    if not self.is_lost:
        self.progress.advance(self.last_batch, self.last_batch)
    _LOST(self, reason)


def _remembers(self: Any, queue: Any, records: Records, waited: bool) -> int:
    number = _SEND_BATCH(self, queue, records, waited)
    vars(self).setdefault("unsure", []).append((number, queue, records))
    return number


def _sends_again(self: Any) -> None:
    before = self.session
    _REPLACE(self)
    for number, queue, records in vars(before).get("unsure", ()):
        if number > before.progress.durable and hasattr(queue, "numbers"):
            self.session.send_batch(queue, records, False)


def _swaps(self: Any, queue: Any, records: Records, waited: bool) -> int:
    if self.is_lost or getattr(queue, "may_refuse", True):
        return _SEND_BATCH(self, queue, records, waited)
    subject = self.subject_of(queue)
    kept = vars(self).pop("kept", None)
    number, self._next_batch = self._next_batch, self._next_batch + 1
    self._sizes.append(records.batch_bytes)
    self._count_unconfirmed(records.batch_bytes)
    if kept is None:
        self.kept = number, subject, records
        self.call_soon(partial(_send_kept, self))
    else:
        first, other, earlier = kept
        _send_as(self, first, subject, records)
        _send_as(self, number, other, earlier)
    return number


def _send_kept(self: Any) -> None:
    kept = vars(self).pop("kept", None)
    if kept is not None:
        _send_as(self, *kept)


def _send_as(self: Any, number: int, subject: int, records: Records) -> None:
    message = SessionMessage(Kind.PUBLISH, WAITED, 0, subject, number)
    self.write(batch_pieces(message, records))


def _tells_no_refusals(self: HostedSession, message: SessionMessage) -> None:
    if message.kind is not Kind.REFUSED:
        _SEND(self, message)


def _takes_anything(self: Any, partition: int, first: int, end: int) -> Any:
    part = self._parts.get(partition)
    if part is None or part[1].take(first, end):
        return (
            _TAKE(self, partition, first, end) if part is None else _counted(self, part, first, end)
        )
    return part[0]


def _counted(self: Any, part: Any, first: int, end: int) -> Any:
    self.count -= end - first
    return part[0]


def _settles_in_the_next(self: Any, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
    session, source = getattr(self._source, "_session", None), self._source
    if not self.session.is_lost or session is None or not hasattr(source, "subject"):
        _SETTLE(self, first, end, reason)
        return
    message = SessionMessage(
        Kind.SETTLE, int(reason), self.index, source.subject, 0, first, end - first
    )
    session.write(message_pieces(message))


def _gives_up_soon(self: Any, ask: Any, too_late: Any, call_later: Any, lease: float = 2.0) -> None:
    _INIT_BARRIER(self, ask, too_late, call_later, lease / 40)


def _knows_at_once(self: Any, session: FrontSession, position: int) -> None:
    session.applied(position)


def _opens_at_once(self: Any, write: Any, epoch: int, position: int) -> FrontSession:
    session: FrontSession = self._link.session
    self._open(write, epoch)
    return session


def _routes_alone(self: Any) -> None:
    full = {"journal"} if self._is_full else frozenset()
    self._gate.close_for(self._pressure | full)


def _never_lapses(self: Any) -> None:
    _FRESHEN(self)
    self._is_fresh = True
    self._gate.lapses_at = inf
    self._close_gate()


def _counts_all_beats(self: Any) -> None:
    unknown, self._unknown = self._unknown, {}
    _FRESHEN(self)
    self._unknown = unknown


def _publishes_parts(self: Any, message: SessionMessage) -> None:
    if not message.flags & PART:
        return _PUBLISH(self, message)
    bound = self._bound(message.subject)
    if bound is not None and bound.queue is not None:
        bound.queue.publish(records_of(message.content), False)


def _never_full(self: Any, more: int) -> None:
    self.unconfirmed_bytes += more


def _forgets_calls(self: Any, reason: str) -> None:
    if not self.is_lost:
        self._calls.clear()
    _LOST(self, reason)


def _stays_away(self: Any, *, was_open: bool) -> None:
    self._waiting.clear()


def _gives_nothing_back(consumers: Any, got: Any, paused: Any) -> Iterator[None]:
    for consumer in consumers:
        consumer.queue.detach((consumer,))
        yield


def _closes_nothing(self: Any, number: int) -> None:
    pass


FRONT_MUTATIONS: dict[str, list[Patch]] = {
    # 1
    "a session's end confirms what was sent": [(FrontSession, "lost", _confirms_at_its_end)],
    # 2
    "a batch is confirmed before the journal has it": [
        (
            BatchConfirms,
            "add",
            lambda self, number, position, on_disk: _ADD(self, number, 0, False),
        )
    ],
    "what a queue refuses is confirmed": [(HostedSession, "_send", _tells_no_refusals)],
    # 3
    "what is not confirmed is sent again": [
        (FrontSession, "send_batch", _remembers),
        (LeaderLink, "_replace", _sends_again),
    ],
    "batches are sent in another order": [(FrontSession, "send_batch", _swaps)],
    # 4
    "deliveries of a lost session are settled in the next one": [
        (RemotePartition, "settle", _settles_in_the_next),
        (Unsettled, "take", _takes_anything),
    ],
    "what a lost session had does not come back": [
        (hosted_session, "leaving", _gives_nothing_back)
    ],
    # 5
    "a change is answered before others know it": [
        (DefinitionBarrier, "gate", lambda self, position: None)
    ],
    "a front says at once that it knows": [(FrontNode, "_apply", _knows_at_once)],
    "a front without a session routes": [(FrontNode, "_close_gate", _routes_alone)],
    "a front that stood still routes": [(FrontNode, "_freshen", _never_lapses)],
    "beats count behind a change that is not known": [(FrontNode, "_freshen", _counts_all_beats)],
    "a leader waits for no session of the one before": [
        (DefinitionBarrier, "expect", lambda self, nodes, position: None)
    ],
    "a session is used before its leader's definitions are known": [
        (FrontNode, "_opened", _opens_at_once)
    ],
    "a node that is late is not waited for": [(DefinitionBarrier, "__init__", _gives_up_soon)],
    # 8
    "a transaction is two blocks": [
        (hosted_session, "_ACTIONS", {**_ACTIONS, Kind.PUBLISH: _publishes_parts})
    ],
    # 10
    "a front that does not read is sent all": [
        (HostedSession, "takes_from", lambda self, consumer: not self._is_over),
        (HostedConsumer, "handed_on", lambda self, messages: self._window.clear()),
    ],
    "a front's publishers wait for no confirms": [
        (FrontSession, "_count_unconfirmed", _never_full)
    ],
    # what clients see
    "calls of a lost session end never": [(FrontSession, "lost", _forgets_calls)],
    "consumers of a lost session stay away": [(RemoteConsumer, "lost", _stays_away)],
    "what a closed connection had of its own stays": [
        (HostedSession, "connection_closed", _closes_nothing)
    ],
}


@contextmanager
def switched_off(rule: str) -> Iterator[None]:
    """Without one rule."""
    with ExitStack() as stack:
        for owner, name, replacement in FRONT_MUTATIONS[rule]:
            stack.enter_context(patch.object(owner, name, replacement))
        yield
