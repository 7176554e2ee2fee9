"""The rules for names of exchanges and queues, and for the keys of bindings."""

import re

from routelog.exchanges.bindings.errors import InvalidName, ReservedName

DEFAULT_EXCHANGE = ""
RESERVED_PREFIX = "amq."
NAME_BYTES_MAX = 255  # a short string carries its length in one octet (AMQP 0-9-1, 4.2.5.3)

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_name(kind: str, name: str) -> None:
    """Refuse a name that is empty, too long, not UTF-8 or holds control characters.

    Args:
        kind: what is named, for the error: "exchange" or "queue".

    Raises:
        InvalidName: the name breaks one of these rules.
    """
    if not name:
        raise InvalidName(f"{kind} name", name, "it is empty")
    _short_string(f"{kind} name", name)
    if _CONTROL_CHARACTER.search(name):
        raise InvalidName(f"{kind} name", name, "it holds a control character")


def check_not_reserved(kind: str, name: str) -> None:
    """Refuse a name that begins with `amq.`."""
    if name.startswith(RESERVED_PREFIX):
        raise ReservedName(kind, name)


def key_bytes(routing_key: str) -> bytes:
    """Return a binding's routing key as it would stand on the wire.

    Raises:
        InvalidName: the key cannot be a short string.
    """
    return _short_string("routing key", routing_key)


def _short_string(kind: str, text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidName(kind, text, "it is not UTF-8") from None
    if len(encoded) > NAME_BYTES_MAX:
        raise InvalidName(kind, text, f"it is longer than {NAME_BYTES_MAX} bytes")
    return encoded
