"""Who reads the logs of all queues by groups, Spark among them, and how far each is behind."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from routelog.management.calls.answer import Answer, Listing
from routelog.management.calls.call import Call
from routelog.management.calls.operation import lists
from routelog.vhosts import ConsumerGroup, VirtualHost


class GroupRow(msgspec.Struct):
    """A reader or consumer group of some queue."""

    name: str
    vhost: str
    queue: str
    consumers: int
    partitions: int
    messages_ready: int
    messages_unacknowledged: int
    hold_bytes: int | None
    lapsed: bool
    filter: dict[str, Any] | None


@lists(GroupRow, has_pages=True)
def list_all_readers(call: Call) -> Answer:
    """Readers and groups of the vhosts that the caller sees; see `log_readers` for one queue's."""
    return _listing(call.seen_vhosts())


@lists(GroupRow, has_pages=True)
def list_readers_of_vhost(call: Call) -> Answer:
    """Readers and groups of a vhost's queues."""
    return _listing([call.vhost])


def _listing(vhosts: list[VirtualHost]) -> Listing:
    return Listing(
        [group for vhost in vhosts for group in vhost.hosted.groups.queues],
        _row,
        lambda group: group.record.name,
        lambda group: (group.vhost, group.name, group.record.name),
        _COLUMNS,
    )


def _row(group: ConsumerGroup) -> GroupRow | None:
    if group.deleted:
        return None
    return GroupRow(
        name=group.record.name,
        vhost=group.vhost,
        queue=group.name,
        consumers=len(group.consumers),
        partitions=len(group.places),
        messages_ready=group.ready,
        messages_unacknowledged=group.unacked,
        hold_bytes=group.record.hold_bytes,
        lapsed=any(each.lapsed is not None for each in group.places),
        filter=group.record.filter,
    )


_COLUMNS: Mapping[str, Callable[[ConsumerGroup], object]] = {
    "name": lambda group: group.record.name,
    "queue": lambda group: group.name,
    "consumers": lambda group: len(group.consumers),
    "messages_ready": lambda group: group.ready,
    "messages_unacknowledged": lambda group: group.unacked,
}
