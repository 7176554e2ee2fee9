"""The arguments of basic.consume for a consumer group: `x-group` and `x-group-expires`."""

from collections.abc import Mapping
from dataclasses import dataclass

from routelog.exchanges import field_type
from routelog.vhosts.arguments.argument_checks import age_microseconds
from routelog.vhosts.errors import InvalidConsumerArgument

GROUP = "x-group"
GROUP_EXPIRES = "x-group-expires"
NAME_BYTES_MAX = 255  # as for names of queues
EXPIRES_DEFAULT = 7 * 86_400_000_000  # us: Kafka's offsets.retention.minutes
EXPIRES_MAX = 100 * 31_536_000_000_000  # us, a hundred years; for more there is 'never'


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The options of a consumer group.

    Attributes:
        expires: how long it stays without consumers (us; None: for ever).
        hold_bytes: bytes of each partition that are kept for the group beyond retention; None: all.
    """

    name: str
    expires: int | None = EXPIRES_DEFAULT
    hold_bytes: int | None = None


def wanted_group(arguments: Mapping[str, object]) -> GroupOptions | None:
    """The group that a consumer wants to join; None when it wants none.

    Raises:
        InvalidConsumerArgument: the name is not valid, or the expiry is no age.
    """
    if GROUP not in arguments:
        if GROUP_EXPIRES in arguments:
            raise InvalidConsumerArgument(GROUP_EXPIRES, f"there is no '{GROUP}'")
        return None
    return GroupOptions(_name(arguments[GROUP]), _expires(arguments))


def _name(value: object) -> str:
    if not isinstance(value, str):
        reason = f"unacceptable type '{field_type(value)}', expected a string of UTF-8"
        raise InvalidConsumerArgument(GROUP, reason)
    if not value:
        raise InvalidConsumerArgument(GROUP, "it is empty")
    if len(value.encode()) > NAME_BYTES_MAX:
        raise InvalidConsumerArgument(GROUP, f"it is longer than {NAME_BYTES_MAX} bytes")
    if not value.isprintable():
        raise InvalidConsumerArgument(GROUP, "it holds a character that cannot be printed")
    return value


def _expires(arguments: Mapping[str, object]) -> int | None:
    value = arguments.get(GROUP_EXPIRES)
    if GROUP_EXPIRES not in arguments:
        return EXPIRES_DEFAULT
    if value == "never":
        return None
    age = age_microseconds(value)
    if not age or age > EXPIRES_MAX:
        reason = (
            "expected 'never', or a number above 0 and one of Y, M, D, d, h, m, s, at most 100Y"
        )
        raise InvalidConsumerArgument(GROUP_EXPIRES, reason)
    return age
