"""Runs of one message: laid out on their own, cut out of longer ones, and without their blind copies."""

from routelog.amqp_front.wire.command import CARBON_COPY, LaidOutRun, PublishRun
from routelog.amqp_front.wire.properties import Properties
from routelog.log_backend import SingleRecord

LOOKED_AT_MAX = 64  # messages one by one, in one turn of the loop: some 30 us each


def single_run(
    channel: int,
    exchange: bytes,
    routing_key: bytes,
    flags: int,
    properties: Properties,
    body: bytes | memoryview,
) -> PublishRun:
    """A publish run of one message that owns its bytes."""
    record = SingleRecord(exchange, routing_key, properties.raw, len(body))
    record.add(body)
    of_run = property_flags(properties), properties.delivery_mode() == 2
    return LaidOutRun(record, channel, exchange, routing_key, flags, *of_run)


def property_flags(properties: Properties) -> int:
    """See `PublishRun`."""
    headers = properties.headers()
    copied = CARBON_COPY if "CC" in headers or "BCC" in headers else 0
    return int.from_bytes(properties.raw[:2], "big") | copied


def at_once(run: PublishRun) -> PublishRun:
    """The first messages of a run: as many as may be looked at one by one in a turn of the loop."""
    return run if run.count <= LOOKED_AT_MAX else run.part(0, LOOKED_AT_MAX)


def has_blind_copies(run: PublishRun) -> bool:
    """Whether a run with copies, which is of one message, has some that nobody is to see."""
    return "BCC" in Properties(run.properties(0)).headers()


def without_blind_copies(run: PublishRun) -> PublishRun:
    """The run as everybody may see it."""
    if not run.property_flags & CARBON_COPY or not has_blind_copies(run):
        return run
    bare = Properties(Properties(run.properties(0)).without_blind_copies())
    flags = run.mandatory | run.immediate << 1
    return single_run(run.channel, run.exchange, run.keys()[0], flags, bare, run.body(0))
