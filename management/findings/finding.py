"""What a finding is, and the kinds that there are."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType

NAMED_MAX = 20  # of one finding; it says how many there are

Severity = Literal["wrong", "look"]
ObjectType = Literal[
    "node",
    "replica",
    "queue",
    "group",
    "connection",
    "user",
    "standby",
    "certificate",
    "disk",
    "bucket",
]


class Named(Struct, kw_only=True):
    """One object that a finding is about: its name, and what is to be said of it.

    `queue` is a group's; `since` is in seconds since 1970; `trend` has the messages of the last ten minutes.
    """

    type: ObjectType
    name: str
    text: str
    vhost: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    since: float | UnsetType = UNSET
    trend: list[int] | UnsetType = UNSET


class Finding(Struct, kw_only=True):
    """Something that is wrong, or that somebody should look at: one kind, and all objects that have it.

    `count` says how many objects; `named` has the worst of them, at most 20; `summary` speaks of several
    together.
    """

    severity: Severity
    kind: str
    title: str
    text: str
    summary: str
    count: int
    since: float | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    named: Sequence[Named]


class Kind(NamedTuple):
    """A kind of finding, and how a sentence speaks of one and of several; {} is how many.

    Attributes:
        of: what the number counts.
    """

    name: str
    title: str
    one: str
    many: str
    of: Literal["objects", "messages"] = "objects"


# The worst first.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("log", "Log", "the log has failed", "the log has failed"),
        Kind("alarm", "Alarm", "publishers wait", "publishers wait"),
        Kind(
            "quarantine",
            "Damage",
            "{} queue is damaged",
            "{} queues are damaged",
        ),
        Kind(
            "compaction",
            "Compaction",
            "{} stream is not compacted",
            "{} streams are not compacted",
        ),
        Kind("replica", "Replica", "{} node is not in sync", "{} nodes are not in sync"),
        Kind("silent", "Silent", "{} node does not answer", "{} nodes do not answer"),
        Kind("disk", "Disk", "the disk fills", "the disk fills"),
        Kind("remote storage", "Bucket", "remote storage is away", "remote storage is away"),
        Kind("certificate", "Certificate", "{} certificate ends", "{} certificates end"),
        Kind(
            "blocked", "Blocked", "{} connection may not publish", "{} connections may not publish"
        ),
        Kind("backlog", "Backlog", "{} queue falls behind", "{} queues fall behind"),
        Kind("group", "Group lag", "{} group falls behind", "{} groups fall behind"),
        Kind("capacity", "Stuck", "consumers of {} queue hang", "consumers of {} queues hang"),
        Kind(
            "unacked", "Unacked", "{} channel holds old messages", "{} channels hold old messages"
        ),
        Kind("age", "Old", "{} queue has old messages", "{} queues have old messages"),
        Kind(
            "dead letters",
            "Dead letters",
            "{} dead letter waits",
            "{} dead letters wait",
            "messages",
        ),
        Kind("login", "Logins", "{} user was refused", "{} users were refused"),
        Kind("standby", "Standby", "{} standby is away", "{} standbys are away"),
        Kind(
            "no consumer", "No consumer", "{} queue has no consumer", "{} queues have no consumer"
        ),
        Kind("paused", "Paused", "{} paused queue fills", "{} paused queues fill"),
        Kind(
            "partitions",
            "Partitions",
            "{} queue uses one partition",
            "{} queues use one partition each",
        ),
    )
}


def finding(
    kind: str,
    named: Sequence[Named],
    *,
    severity: Severity = "look",
    count: int | None = None,
    messages: int | None = None,
    summary: str,
) -> Finding:
    """A finding of a kind.

    Args:
        named: the worst first.
        count: None: those that are named.
        messages: of all objects; None: it is not about messages.
        summary: what is to be said of all together, where there are several.
    """
    first, many = named[0], len(named) if count is None else count
    text = f"{first.name} {first.text}"
    if many > 1:
        text = f"{summary}, first of all {text}"
    times = [each.since for each in named if each.since is not UNSET]
    return Finding(
        severity=severity,
        kind=kind,
        title=KINDS[kind].title,
        text=text,
        summary=summary if many > 1 else "",
        count=many,
        since=min(times, default=UNSET),
        messages=UNSET if messages is None else messages,
        named=named[:NAMED_MAX],
    )


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def phrase(of: Finding) -> str:
    """What a sentence says of a finding, without its first capital letter."""
    kind = KINDS[of.kind]
    number = of.messages if kind.of == "messages" and of.messages is not UNSET else of.count
    words = _WORDS[number] if number < len(_WORDS) else f"{number:,}"
    return (kind.one if number == 1 else kind.many).format(words)
