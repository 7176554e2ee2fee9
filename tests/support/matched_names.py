"""Where the bindings lead that an index has matched."""

from collections.abc import Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match


def matched_names(found: Iterable[Match]) -> list[str]:
    """The names of queues and exchanges, as often as they were matched."""
    names: list[str] = []
    for each in found:
        names += (
            [each.destination] if isinstance(each, Binding) else [*each.queues, *each.exchanges]
        )
    return names
