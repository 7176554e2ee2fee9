"""How consumer groups are kept in the metadata store::

    key                              value, JSON
    groups/<vhost>/<queue>/<group>   {"version":1,"queue":...,"name":...,"cursor":n,"begins":[n],"expires":us,
                                      "hold_bytes":n,"filter":{...}}
    next-cursors/<vhost>/<queue>     {"version":1,"queue":...,"cursor":n}

`begins` has an offset for each partition: the group has no use for records below. `filter` has the arguments
that its consumers give for one, see `filter_arguments`; null: it has none. The cursor number of
the queue's next group is stored, because none is given twice: the journal may still hold what a
deleted group has settled.
"""

from typing import Any, Literal

import msgspec

from routelog.log_backend import Change
from routelog.vhosts.stored.topology_record import record_key


class GroupRecord(msgspec.Struct, frozen=True):
    """A consumer group of a stored queue, with the number of its cursor in every partition."""

    queue: str
    name: str
    cursor: int
    begins: list[int]
    expires: int | None
    hold_bytes: int | None = None
    filter: dict[str, Any] | None = None
    version: Literal[1] = 1


class NextCursorRecord(msgspec.Struct, frozen=True):
    """The cursor number that the next group of a queue gets."""

    queue: str
    cursor: int
    version: Literal[1] = 1


def group_change(vhost: str, record: GroupRecord, *, deleted: bool = False) -> Change:
    """Write or delete the group."""
    key = record_key("groups", vhost, record.queue, record.name)
    return Change(key, None if deleted else msgspec.json.encode(record))


def next_cursor_change(vhost: str, queue: str, cursor: int | None) -> Change:
    """Write the number that the queue's next group gets; None: the queue is deleted."""
    key = record_key("next-cursors", vhost, queue)
    if cursor is None:
        return Change(key, None)
    return Change(key, msgspec.json.encode(NextCursorRecord(queue, cursor)))
