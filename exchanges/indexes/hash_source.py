"""The part of a message that a hashing exchange hashes, and the hash.

Source: rabbitmq_consistent_hash_exchange; `x-hash-on` is LavinMQ's name for `hash-header`.
"""

import hashlib
from collections.abc import Callable

from routelog.exchanges.bindings.errors import InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.field_values import octets
from routelog.exchanges.bindings.message import Message

HASH_HEADERS = ("hash-header", "x-hash-on")
HASH_PROPERTY = "hash-property"
PROPERTIES = ("correlation_id", "message_id", "timestamp")

# The octets to hash. A missing header or property is hashed as no octets: all such messages go to one
# destination.
HashSource = Callable[[bytes, Message], bytes]


def hash_source(exchange: Exchange) -> HashSource | None:
    """Return the function that takes the octets to hash out of a message; None: hash the routing key.

    Raises:
        InvalidExchangeArguments: header and property are both given, or one of them is invalid.
    """
    header = next(
        (each for each in map(exchange.arguments.get, HASH_HEADERS) if each is not None), None
    )
    name = exchange.arguments.get(HASH_PROPERTY)
    if header is not None and name is not None:
        raise InvalidExchangeArguments("hash-header and hash-property are mutually exclusive")
    if header is not None:
        if not isinstance(header, str):
            raise InvalidExchangeArguments("hash-header must be a string")
        return lambda routing_key, message: octets(message.headers.get(header))
    if name is not None:
        if name not in PROPERTIES:
            raise InvalidExchangeArguments(f"Unsupported property: {name}")
        return lambda routing_key, message: message.value(str(name)) or b""
    return None


def hash64(content: bytes) -> int:
    """64 bits that are the same on every machine and after every start."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
