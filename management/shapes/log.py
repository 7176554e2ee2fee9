"""Logs of queues, and their readers."""

from typing import TypedDict


class LogRow(TypedDict):
    """A queue that has a log."""

    queue: str
    partitions: int


class RemoteLog(TypedDict):
    """What of a log is in remote storage."""

    first_offset: int
    end_offset: int
    segments: int
    bytes: int


class StoredLog(TypedDict):
    """What one partition has stored: `segments` as first offset, end offset and bytes, oldest first."""

    first_offset: int
    end_offset: int
    next_offset: int
    segments: list[list[int]]
    number: int
    remote: RemoteLog | None


class FoundOffset(TypedDict):
    """The first offset of a time or later; null while there is none."""

    offset: int | None


class LogToken(TypedDict):
    """A token for the logs of a vhost, and how long it is good for."""

    token: str
    seconds: int


class ReaderPlace(TypedDict):
    """How far a reader is in one partition; `lapsed` are the offsets [first, end) that it lost to its limit."""

    next_offset: int
    messages_ready: int
    bytes_behind: int
    lapsed: list[int] | None


class PlaceMove(TypedDict):
    """What a move would do in one partition: from `next_offset` to another."""

    next_offset: int
    to: int
    skipped: int
    repeated: int


class ReaderMove(TypedDict):
    """What a move of a reader would do: messages that it skips, and those that it reads once more."""

    skipped: int
    repeated: int
    partitions: list[PlaceMove]


class GroupRow(TypedDict):
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


class ReaderRow(TypedDict):
    """A consumer group, or a reader, which is a group without consumers."""

    name: str
    consumers: int
    partitions: list[ReaderPlace]
    hold_bytes: int | None


# Of each batch: the first offset, the end offset, and bytes of bodies.
BodySizes = list[list[int]]
