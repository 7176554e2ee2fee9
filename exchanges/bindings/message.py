"""The parts of a message, beside its routing key, that an exchange may route by."""

from collections.abc import Callable, Mapping
from typing import NamedTuple


def _no_value(name: str) -> None:
    return None


class Message(NamedTuple):
    """A message as exchanges see it.

    Attributes:
        headers: its header table, which must not be changed.
        value: returns the octets of another property by its name, such as `message_id`; None if it is missing.
    """

    headers: Mapping[str, object]
    value: Callable[[str], bytes | None] = _no_value


BARE_MESSAGE = Message({})
