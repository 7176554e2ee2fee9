"""What a publish may not do beyond its exchange: topics it may not write to, properties it may not have."""

from collections.abc import Iterator
from typing import Protocol

from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, AmqpError, SoftError
from routelog.amqp_front.wire.properties import REPLY_TO, USER_ID, Identity, Properties, copies
from routelog.amqp_front.wire.single_run import single_run
from routelog.broker import PSEUDO_QUEUE
from routelog.log_backend import EXPIRATION
from routelog.vhosts import AccessRefused, MatchBudget, PermissionCache, Verb, VirtualHost

INSPECTED = EXPIRATION | USER_ID | REPLY_TO | CARBON_COPY


class CheckedChannel(Identity, Protocol):
    """What is asked of the channel."""

    vhost: VirtualHost
    permissions: PermissionCache
    reply_address: str | None


def is_checked(run: PublishRun, channel: CheckedChannel) -> bool:
    """Whether anything of a run has to be looked at, message by message."""
    return bool(channel.permissions.topics or run.property_flags & INSPECTED)


def checked(run: PublishRun, exchange: str, channel: CheckedChannel) -> Iterator[PublishRun]:
    """The runs to carry out in place of one; lazily.

    Raises:
        SoftError: 403, 406; what came before a message that is refused has been given.
    """
    if channel.permissions.topics:
        return _within_topics(run, exchange, channel)
    return _inspected(run, channel)


def _within_topics(run: PublishRun, exchange: str, channel: CheckedChannel) -> Iterator[PublishRun]:
    refused: Exception | None = None
    allowed, budget = run.count, MatchBudget()
    if channel.vhost.routing.routes_by_topic(exchange):
        for at, key in enumerate(run.keys()):
            try:
                _check_topics(run, at, key, exchange, channel, budget)
            except (AccessRefused, AmqpError) as error:
                refused, allowed = error, at
                break
    if allowed:
        yield from _inspected(run if allowed == run.count else run.part(0, allowed), channel)
    if refused is not None:
        raise refused


def _check_topics(
    run: PublishRun,
    at: int,
    key: bytes,
    exchange: str,
    channel: CheckedChannel,
    budget: MatchBudget,
) -> None:
    keys = [key]
    if run.property_flags & CARBON_COPY:
        keys += copies(Properties(run.properties(at)).headers())
    for each in keys:
        text = each.decode(errors="surrogateescape")
        channel.permissions.authorize_topic(exchange, Verb.WRITE, text, budget)


def _inspected(run: PublishRun, channel: CheckedChannel) -> Iterator[PublishRun]:
    if run.property_flags & (REPLY_TO | CARBON_COPY):
        yield from _inspected_singles(run, channel)
        return
    if run.property_flags & INSPECTED:
        for at in range(run.count):
            try:
                Properties(run.properties(at)).check(channel)
            except SoftError:
                if at:
                    yield run.part(0, at)
                raise
    yield run


def _inspected_singles(run: PublishRun, channel: CheckedChannel) -> Iterator[PublishRun]:
    flags = run.mandatory | run.immediate << 1
    for at, key in enumerate(run.keys()):
        properties = Properties(run.properties(at))
        properties.check(channel)
        copies(properties.headers())
        parts = (run.channel, run.exchange, key, flags, _readdressed(properties, channel))
        yield single_run(*parts, run.body(at))


def _readdressed(properties: Properties, channel: CheckedChannel) -> Properties:
    if properties.value("reply_to") != PSEUDO_QUEUE.encode():
        return properties
    if channel.reply_address is None:
        raise SoftError(PRECONDITION_FAILED, "fast reply consumer does not exist")
    return Properties(properties.with_reply_to(channel.reply_address))
