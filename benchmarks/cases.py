"""The workloads, in the order in which they are reported."""

from dataclasses import dataclass

# A broker that takes messages faster than it delivers them would otherwise fill its memory, and
# the figure would be that of its backlog. Both bounds are far above what any socket buffers.
OUTSTANDING_MESSAGES_MAX = 200_000
OUTSTANDING_BYTES_MAX = 64 * 1_048_576


@dataclass(frozen=True)
class Case:
    """One producer connection, one queue, one consumer connection, and how they behave.

    Args:
        confirms_in_flight: 0 means no publisher confirms.
        ack_every: deliveries settled by one basic.ack; 0 means automatic acknowledgement.
        prefetch: unsettled deliveries allowed; 0 means no limit.
    """

    name: str
    body_bytes: int
    durable: bool
    confirms_in_flight: int
    ack_every: int
    prefetch: int

    def outstanding_max(self, publish_bytes: int) -> int:
        """Messages sent and not yet received that the producer may run ahead."""
        return min(OUTSTANDING_MESSAGES_MAX, OUTSTANDING_BYTES_MAX // publish_bytes)


def _transient(body_bytes: int) -> Case:
    return Case(f"transient-{body_bytes}", body_bytes, False, 0, 0, 0)


CASES = (
    _transient(100),
    _transient(16),
    _transient(1024),
    Case("durable-100", 100, True, confirms_in_flight=200, ack_every=1, prefetch=100),
    Case("durable-1024", 1024, True, confirms_in_flight=200, ack_every=1, prefetch=100),
    Case("durable-wide-100", 100, True, confirms_in_flight=4_000, ack_every=200, prefetch=20_000),
    Case("durable-single-100", 100, True, confirms_in_flight=1, ack_every=1, prefetch=100),
)


def cases_named(names: list[str]) -> tuple[Case, ...]:
    """The cases of these names, or all of them when no name is given.

    Raises:
        ValueError: a name is unknown.
    """
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown case {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(known[name] for name in names) if names else CASES
