"""Queue arguments: valid values, equivalence of two declarations, and their meaning."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from routelog.exchanges import comparable, field_type
from routelog.log_backend import Compaction, Durability, Retention
from routelog.vhosts.arguments.argument_checks import (
    BY_KEY,
    CLEANUPS,
    COMPACT,
    COMPRESSIONS,
    DEAD_LETTER_STRATEGIES,
    DURABILITIES,
    MICROSECONDS,
    MIRRORED,
    OVERFLOWS,
    PARTITION_STRATEGIES,
    QUEUE_TYPES,
    RETRIES,
    ROUND_ROBIN,
    WITHOUT_EFFECT,
    Check,
    age,
    age_microseconds,
    flag,
    header_name,
    integer,
    one_of,
    routing_key,
    text,
)
from routelog.vhosts.errors import InvalidQueueArgument, QueueInequivalent

PARTITIONS_MAX = 256  # each costs memory, a directory, and the dispatcher a look in its turn

MILLISECONDS_MAX = 10 * 365 * 86_400_000  # RabbitMQ's limit of ten years

# Known arguments: checked at declaration, compared at redeclaration. Others are kept and ignored.
KNOWN: Mapping[str, Check] = {
    "x-expires": integer(1, MILLISECONDS_MAX),
    "x-message-ttl": integer(0, MILLISECONDS_MAX),
    "x-max-length": integer(0),
    "x-max-length-bytes": integer(0),
    "x-max-priority": integer(0, 255),
    "x-overflow": one_of(*OVERFLOWS),
    "x-dead-letter-exchange": text,
    "x-dead-letter-routing-key": routing_key,
    "x-dead-letter-strategy": one_of(*DEAD_LETTER_STRATEGIES),
    "x-single-active-consumer": flag,
    "x-delivery-limit": integer(-1),
    "x-delayed-retry-type": one_of(*RETRIES),
    "x-delayed-retry-min": integer(1),
    "x-delayed-retry-max": integer(1),
    "x-consumer-timeout": integer(0),
    "x-queue-type": one_of(*QUEUE_TYPES),
    "x-quorum-initial-group-size": integer(1),
    "x-max-age": age,
    "x-cleanup-policy": one_of(*CLEANUPS),
    "x-delete-retention": age,
    "x-min-compaction-lag": age,
    "x-retention": age,
    "x-retention-force": flag,
    "x-durability": one_of(*DURABILITIES),
    "x-message-deduplication": flag,
    "x-partitions": integer(1, PARTITIONS_MAX),
    "x-partition-key": header_name,
    "x-partition-strategy": one_of(*PARTITION_STRATEGIES),
    "x-compression": one_of(*COMPRESSIONS),
    "x-remote-storage": flag,
    "x-local-max-age": age,
    "x-local-max-length-bytes": integer(0),
    **{f"x-{key}": check for key, check in WITHOUT_EFFECT.items()},
}

# Defaults: an argument with this value is equivalent to none.
UNSAID: Mapping[str, object] = {
    "x-queue-type": "classic",
    "x-partition-strategy": BY_KEY,
    "x-cleanup-policy": CLEANUPS[0],
}

ONLY_FOR_STREAMS = ("x-cleanup-policy", "x-delete-retention", "x-min-compaction-lag")

DELETE_RETENTION_DEFAULT = MICROSECONDS["D"]  # as Kafka's delete.retention.ms

# Arguments that act on single messages when they are consumed: streams refuse them, as in RabbitMQ.
NOT_FOR_STREAMS = (
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-priority",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
)

# Arguments that say where a message lies: a queue has them for its life.
FOR_LIFE = ("x-partitions", "x-partition-key", "x-partition-strategy")

# Arguments without meaning unless another one is given.
NEEDED: Mapping[str, str] = {
    "x-dead-letter-routing-key": "x-dead-letter-exchange",
    "x-partition-key": "x-partitions",
    "x-partition-strategy": "x-partitions",
    "x-local-max-age": "x-remote-storage",
    "x-local-max-length-bytes": "x-remote-storage",
}


def check_arguments(queue: str, vhost: str, arguments: Mapping[str, object]) -> None:
    """Refuse arguments of a declaration that are not valid.

    Raises:
        InvalidQueueArgument: names the first one.
    """
    for name, value in arguments.items():
        check = KNOWN.get(name)
        reason = check(value) if check else None
        if reason is not None:
            raise InvalidQueueArgument(queue, vhost, name, reason)
    for name, needed in NEEDED.items():
        if name in arguments and needed not in arguments:
            raise InvalidQueueArgument(queue, vhost, name, f"there is no '{needed}'")
    if "x-partition-key" in arguments and arguments.get("x-partition-strategy") == ROUND_ROBIN:
        reason = f"the strategy '{ROUND_ROBIN}' looks at no key"
        raise InvalidQueueArgument(queue, vhost, "x-partition-key", reason)
    if "x-quorum-initial-group-size" in arguments and not counts_deliveries(arguments):
        reason = "only queues of type 'quorum' have it"
        raise InvalidQueueArgument(queue, vhost, "x-quorum-initial-group-size", reason)
    if "x-max-age" in arguments and not is_stream(arguments):
        reason = (
            "only a stream lets go of messages by age; to keep consumed messages use 'x-retention'"
        )
        raise InvalidQueueArgument(queue, vhost, "x-max-age", reason)
    if is_stream(arguments):
        for name in NOT_FOR_STREAMS:
            if name in arguments:
                raise InvalidQueueArgument(queue, vhost, name, "no stream can do it")
    for name in ONLY_FOR_STREAMS:
        if name in arguments and not is_stream(arguments):
            raise InvalidQueueArgument(queue, vhost, name, "only a stream is compacted")
    if arguments.get("x-cleanup-policy") == COMPACT:
        reason = _not_compacted(arguments)
        if reason is not None:
            raise InvalidQueueArgument(queue, vhost, "x-cleanup-policy", reason)
    if "x-message-deduplication" in arguments and is_stream(arguments):
        reason = "a stream keeps every message; an exchange can let those with a new key through"
        raise InvalidQueueArgument(queue, vhost, "x-message-deduplication", reason)
    if "x-retention-force" in arguments and retention(arguments) is None:
        reason = "the queue keeps no log: it is no stream and has no 'x-retention'"
        raise InvalidQueueArgument(queue, vhost, "x-retention-force", reason)


def _not_compacted(arguments: Mapping[str, object]) -> str | None:
    """Why a stream with these arguments, and those of a policy, is not compacted; None: it can be."""
    if arguments.get("x-remote-storage") is True:
        return "a log with remote storage is not compacted: the copies would differ"
    if arguments.get("x-partition-strategy") == ROUND_ROBIN:
        return f"the strategy '{ROUND_ROBIN}' spreads a key over the partitions"
    return None


def check_equivalent(
    queue: str,
    vhost: str,
    current: Mapping[str, object],
    received: Mapping[str, object],
    names: Iterable[str] = KNOWN,
) -> None:
    """Refuse a redeclaration whose known arguments differ, or those of some names.

    Raises:
        QueueInequivalent: names the first one.
    """
    for name in names:
        unsaid = UNSAID.get(name)
        has, asked = current.get(name, unsaid), received.get(name, unsaid)
        if comparable(has) != comparable(asked):
            raise QueueInequivalent(queue, vhost, name, *_differing(asked, has))


def check_change(
    queue: str, vhost: str, current: Mapping[str, object], received: Mapping[str, object]
) -> None:
    """Refuse other arguments of a queue that is there, if it has the present ones for its life.

    Raises:
        QueueInequivalent: names the first one.
    """
    kind = ("x-queue-type",) if is_stream(current) != is_stream(received) else ()
    check_equivalent(queue, vhost, current, received, (*kind, *FOR_LIFE))


def difference(current: Mapping[str, object], received: Mapping[str, object]) -> str:
    """The arguments that differ, for people; empty: none does."""
    return ", ".join(
        f"{name}: {_described(current.get(name))} becomes {_described(received.get(name))}"
        for name in dict.fromkeys((*current, *received))
        if comparable(current.get(name)) != comparable(received.get(name))
    )


def check_durability(queue: str, vhost: str, arguments: Mapping[str, object], stored: bool) -> None:
    """Refuse a durability that a queue cannot keep.

    Raises:
        InvalidQueueArgument: the queue ends with its connection or with the broker.
    """
    if not stored and arguments.get("x-durability", Durability.MEMORY) != Durability.MEMORY:
        reason = "only durable queues that are not exclusive keep messages anywhere but in memory"
        raise InvalidQueueArgument(queue, vhost, "x-durability", reason)


def check_remote(
    queue: str, vhost: str, arguments: Mapping[str, object], stored: bool, has_remote: bool
) -> None:
    """Refuse remote storage for a queue without segments, or on a node without remote storage.

    Raises:
        InvalidQueueArgument: says what is missing.
    """
    reason = None
    if arguments.get("x-remote-storage") is not True:
        return
    if not has_remote:
        reason = "this broker has no remote storage: 'remote_storage' in its configuration"
    elif not stored:
        reason = "only durable queues that are not exclusive have a log to copy"
    elif retention(arguments) is None:
        reason = "the queue keeps no log: it is no stream and has no 'x-retention'"
    if reason is not None:
        raise InvalidQueueArgument(queue, vhost, "x-remote-storage", reason)


def durability(arguments: Mapping[str, object], default: Durability) -> Durability:
    """What a confirm promises in a durable queue: `x-durability`, or a default; a quorum queue is MIRRORED."""
    unsaid = MIRRORED if counts_deliveries(arguments) else default
    return durability_level(str(arguments.get("x-durability", unsaid)))


def durability_level(word: str) -> Durability:
    """One of `DURABILITIES` as what a log waits for: in a cluster, what is synced is mirrored, too."""
    return Durability.DISK if word == MIRRORED else Durability(word)


def is_stream(arguments: Mapping[str, object]) -> bool:
    """Whether a queue is a stream."""
    return arguments.get("x-queue-type") == "stream"


def has_single_active_consumer(arguments: Mapping[str, object]) -> bool:
    """Whether a queue has `x-single-active-consumer`."""
    return arguments.get("x-single-active-consumer") is True


def priority_max(arguments: Mapping[str, object]) -> int:
    """The highest priority of a queue (`x-max-priority`); 0: it has none."""
    highest = arguments.get("x-max-priority", 0)
    return highest if isinstance(highest, int) and not is_stream(arguments) else 0


def counts_deliveries(arguments: Mapping[str, object]) -> bool:
    """Whether redeliveries of a queue have the header `x-delivery-count`."""
    return arguments.get("x-queue-type") == "quorum"


def retention(arguments: Mapping[str, object]) -> Retention | None:
    """The retention of a queue; None: settled messages are removed."""
    settled_age = age_microseconds(arguments.get("x-retention"))
    if settled_age is None and not is_stream(arguments):
        return None
    limits = Retention(
        settled_age=settled_age or 0,
        is_forced=arguments.get("x-retention-force") is True,
        is_remote=arguments.get("x-remote-storage") is True,
        local_age_max=age_microseconds(arguments.get("x-local-max-age")),
        local_bytes_max=_size(arguments.get("x-local-max-length-bytes")),
    )
    if not is_stream(arguments):
        return limits
    return replace(
        limits,
        is_stream=True,
        age_max=age_microseconds(arguments.get("x-max-age")),
        bytes_max=_size(arguments.get("x-max-length-bytes")),
        compaction=_compaction(arguments),
    )


def _compaction(arguments: Mapping[str, object]) -> Compaction | None:
    if arguments.get("x-cleanup-policy") != COMPACT or _not_compacted(arguments) is not None:
        return None
    header = arguments.get("x-partition-key")
    deletion_age = age_microseconds(arguments.get("x-delete-retention"))
    return Compaction(
        header if isinstance(header, str) else "",
        DELETE_RETENTION_DEFAULT if deletion_age is None else deletion_age,
        age_microseconds(arguments.get("x-min-compaction-lag")) or 0,
    )


def _size(value: object) -> int | None:
    return value if isinstance(value, int) else None


def compression(arguments: Mapping[str, object]) -> str | None:
    """The compression of a queue's sealed segments; None: the default."""
    chosen = arguments.get("x-compression")
    return chosen if isinstance(chosen, str) else None


def _differing(asked: object, has: object) -> tuple[str, str]:
    # As RabbitMQ writes it: with types when they differ.
    if asked is None or has is None or field_type(asked) != field_type(has):
        return _described(asked), _described(has)
    return f"'{_plain(asked)}'", f"'{_plain(has)}'"


def _described(value: object) -> str:
    return "none" if value is None else f"the value '{_plain(value)}' of type '{field_type(value)}'"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
