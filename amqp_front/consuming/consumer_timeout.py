"""How long a consumer may hold a delivery: what it says itself, else what its queue says, else the broker."""

from collections.abc import Mapping

from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError

CONSUMER_TIMEOUT = "x-consumer-timeout"  # ms, of a consumer or a queue; 0: none


def wanted_timeout(arguments: Mapping[str, object]) -> int | None:
    """The milliseconds that a consumer says it may take; None: it says nothing.

    Raises:
        SoftError: 406, it is no such number.
    """
    timeout = arguments.get(CONSUMER_TIMEOUT)
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 0:
        raise SoftError(PRECONDITION_FAILED, f"{CONSUMER_TIMEOUT} is no number of milliseconds")
    return timeout


def lease_seconds(own: int | None, of_queue: Mapping[str, object], default: float) -> float | None:
    """How long a consumer may hold a delivery; None: for ever.

    Args:
        own: what `wanted_timeout` gave.
        of_queue: effective arguments of its queue.
        default: seconds, of the broker; 0: for ever.
    """
    timeout = own
    if timeout is None:
        value = of_queue.get(CONSUMER_TIMEOUT)
        timeout = value if isinstance(value, int) else None
    return (default if timeout is None else timeout / 1_000) or None
