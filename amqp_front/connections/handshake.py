"""The opening of a connection: start, tune, open, and what each side may ask for.

    protocol header -> start-ok -> (login) -> tune-ok -> open -> open-ok

Source: AMQP 0-9-1 specification, section 2.2.4; limits and codes as RabbitMQ's.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import msgspec
from pamqp import commands

from routelog.amqp_front.wire.errors import NOT_ALLOWED, HardError
from routelog.amqp_front.wire.frame_cutter import FRAME_OVERHEAD
from routelog.amqp_front.wire.methods import encode_method
from routelog.broker import BrokerConfig, ClientIdentity
from routelog.vhosts import RABBITMQ_PRODUCT, RABBITMQ_VERSION, plain_arguments

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
# 0-9-1, and 0-9 as old clients say it
ACCEPTED_HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
FRAME_MIN = 4_096  # of the specification
FRAME_BEFORE_TUNE = 8_192  # RabbitMQ's; enough for the client properties of every known client

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)

# A client property, not a capability: pika and aio-pika replace all capabilities by those that the application
# gives. It has to be asked for, as aio-pika takes a return for the answer, and overlooks the nack behind it.
RETURN_REFUSED = "return_refused"


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was agreed.

    Attributes:
        channel_max: highest channel number.
        frame_max: largest frame in bytes, its 8 bytes of overhead included.
        heartbeat: seconds; 0 is none.
    """

    channel_max: int
    frame_max: int
    heartbeat: int

    @property
    def body_frame_max(self) -> int:
        """Largest body payload of a frame."""
        return self.frame_max - FRAME_OVERHEAD


@cache
def start_frame(cluster_name: str, mechanisms: tuple[str, ...]) -> bytes:
    """connection.start, with the SASL mechanisms that the client may choose from."""
    properties = {
        "product": RABBITMQ_PRODUCT,
        "version": RABBITMQ_VERSION,
        "platform": f"RouteLog {version('routelog-broker')}, Python {python_version()}",
        "copyright": "The RouteLog authors",
        "information": "Licensed under the Apache License 2.0",
        "cluster_name": cluster_name,
        "capabilities": dict.fromkeys(CAPABILITIES, True),
    }
    return encode_method(
        0,
        commands.Connection.Start,
        version_major=0,
        version_minor=9,
        server_properties=properties,
        mechanisms=" ".join(mechanisms),
        locales="en_US",
    )


@cache
def tune_frame(channel_max: int, frame_max: int, heartbeat: int) -> bytes:
    """connection.tune, with what a broker offers."""
    return encode_method(
        0,
        commands.Connection.Tune,
        channel_max=channel_max,
        frame_max=frame_max,
        heartbeat=heartbeat,
    )


def agreed_tuning(config: BrokerConfig, method: Any) -> Tuning:
    """The values of a tune-ok.

    Raises:
        HardError: 530, a value is above what was offered, or frame-max below the smallest.
    """
    if not 1 <= method.channel_max <= config.channel_max:
        reason = (
            f"negotiated channel_max = {method.channel_max} is not in 1 to {config.channel_max}"
        )
        raise HardError(NOT_ALLOWED, reason)
    if not FRAME_MIN <= method.frame_max <= config.frame_max:
        reason = (
            f"negotiated frame_max = {method.frame_max} is not in {FRAME_MIN} to {config.frame_max}"
        )
        raise HardError(NOT_ALLOWED, reason)
    return Tuning(method.channel_max, method.frame_max, method.heartbeat)


def client_identity(method: Any, now: int) -> ClientIdentity:
    """What a start-ok says of the client.

    Args:
        now: microseconds since 1970.
    """
    properties = msgspec.json.encode(plain_arguments(method.client_properties))
    return ClientIdentity(sys.intern(method.mechanism), _shared(properties), now // 1_000)


@lru_cache(maxsize=64)
def _shared(properties: bytes) -> bytes:
    # Clients of one library and version say the same, some half a kilobyte.
    return properties


def client_capability(properties: Mapping[str, object], name: str) -> bool:
    """Whether the client said that it can handle something."""
    capabilities = properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True
