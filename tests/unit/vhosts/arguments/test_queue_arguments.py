"""Queue arguments: what each takes, and which declarations mean the same."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from routelog.log_backend import Compaction, Durability, Retention
from routelog.vhosts.arguments.queue_arguments import (
    KNOWN,
    check_arguments,
    check_durability,
    check_equivalent,
    compression,
    durability,
    retention,
)
from routelog.vhosts.errors import InvalidQueueArgument, QueueInequivalent

INTEGERS = (
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-partitions",
)
TEXTS = ("x-dead-letter-exchange", "x-dead-letter-routing-key")

# One value of each type that a field table can hold.
EACH_TYPE: list[object] = [
    5,
    True,
    1.5,
    "5",
    b"5",
    None,
    Decimal(5),
    datetime(2020, 1, 1, tzinfo=UTC),
    [5],
    {"a": 5},
]


def complaint(**arguments: object) -> str | None:
    """The reason of the refusal, if any; underscores stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    try:
        check_arguments("q", "/", named)
    except InvalidQueueArgument as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", EACH_TYPE, ids=repr)
def test_numbers_are_integers(name: str, value: object) -> None:
    accepted = complaint(**{name: value}) is None
    assert accepted is (type(value) is int)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", EACH_TYPE, ids=repr)
def test_names_are_text(name: str, value: object) -> None:
    arguments = {"x-dead-letter-exchange": "dlx", name: value}
    assert (complaint(**arguments) is None) is isinstance(value, str)


@pytest.mark.parametrize("value", EACH_TYPE, ids=repr)
def test_a_flag_is_a_boolean(value: object) -> None:
    accepted = complaint(x_single_active_consumer=value) is None
    assert accepted is isinstance(value, bool)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("x-expires", 1, 315_360_000_000),
        ("x-message-ttl", 0, 315_360_000_000),
        ("x-max-length", 0, 2**63 - 1),
        ("x-max-length-bytes", 0, 2**63 - 1),
        ("x-max-priority", 0, 255),
        ("x-delivery-limit", -1, 2**63 - 1),
        ("x-partitions", 1, 256),
    ],
)
def test_numbers_have_their_range(name: str, low: int, high: int) -> None:
    assert complaint(**{name: low}) is None
    assert complaint(**{name: high}) is None
    for outside in (low - 1, high + 1):
        expected = f"value {outside} is not between {low} and {high}"
        assert complaint(**{name: outside}) == (
            f"invalid arg '{name}' for queue 'q' in vhost '/': {expected}"
        )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x-overflow", ["drop-head", "reject-publish", "reject-publish-dlx"]),
        ("x-queue-type", ["classic", "quorum", "stream"]),
        ("x-dead-letter-strategy", ["at-most-once", "at-least-once"]),
        ("x-compression", ["zstd", "lz4", "none"]),
    ],
)
def test_words_are_of_their_list(name: str, values: list[str]) -> None:
    for value in values:
        assert complaint(**{name: value}) is None
    for other in (*EACH_TYPE, "", values[0].upper(), values[0] + " "):
        assert complaint(**{name: other}) is not None


@pytest.mark.parametrize("name", ["x-max-age", "x-retention"])
def test_ages_are_a_number_and_a_unit(name: str) -> None:
    for age in ("0s", "1s", "5m", "24h", "7D", "7d", "12M", "1Y", "999999999s"):
        assert complaint(**{"x-queue-type": "stream", name: age}) is None
    for other in (
        *EACH_TYPE,
        "",
        "s",
        "5",
        "5 s",
        "-5s",
        "1.5h",
        "5w",
        "5S",
        "٥s",
        "1s\n",
        "9" * 10 + "s",
    ):
        assert complaint(**{name: other}) is not None


def test_a_partition_key_is_a_headers_name_and_needs_partitions() -> None:
    for name in ("k", "größe", "k" * 255):
        assert complaint(x_partitions=1, x_partition_key=name) is None
    for other in (*EACH_TYPE, "", "k" * 256, "ß" * 128):
        if other != "5":
            assert complaint(x_partitions=2, x_partition_key=other) is not None
    assert "there is no 'x-partitions'" in (complaint(x_partition_key="k") or "")


def test_a_partition_strategy_needs_partitions() -> None:
    for strategy in ("key", "round-robin", "header"):
        assert complaint(x_partitions=1, x_partition_strategy=strategy) is None
        assert "there is no 'x-partitions'" in (complaint(x_partition_strategy=strategy) or "")
    for other in (*EACH_TYPE, "", "sticky", "Key"):
        assert complaint(x_partitions=2, x_partition_strategy=other) is not None


def test_round_robin_has_no_key() -> None:
    both: dict[str, object] = {"x_partitions": 2, "x_partition_key": "tenant"}
    for strategy in ("key", "header"):
        assert complaint(**both, x_partition_strategy=strategy) is None
    assert "looks at no key" in (complaint(**both, x_partition_strategy="round-robin") or "")


def test_a_dead_letter_key_needs_its_exchange() -> None:
    assert "there is no 'x-dead-letter-exchange'" in (
        complaint(x_dead_letter_routing_key="k") or ""
    )
    both = {"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": ""}
    assert complaint(**both) is None


def test_a_dead_letter_key_fits_into_a_frame() -> None:
    for key, reason in (("k" * 255, None), ("\u00e9" * 128, "longer than 255 bytes")):
        said = complaint(x_dead_letter_exchange="", x_dead_letter_routing_key=key)
        assert (said is None) if reason is None else (reason in (said or ""))


@pytest.mark.parametrize("kind", [{}, {"x-queue-type": "classic"}, {"x-queue-type": "quorum"}])
def test_only_streams_have_an_age_at_which_messages_go(kind: dict[str, object]) -> None:
    assert "use 'x-retention'" in (complaint(**kind, x_max_age="1h") or "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-cleanup-policy", "compact"),
        ("x-cleanup-policy", "delete"),
        ("x-delete-retention", "1h"),
        ("x-min-compaction-lag", "0s"),
    ],
)
def test_only_streams_are_compacted(name: str, value: str) -> None:
    assert complaint(**{"x-queue-type": "stream", name: value}) is None
    assert "expected" in (complaint(**{"x-queue-type": "stream", name: "5"}) or "")
    for kind in ("classic", "quorum"):
        assert "only a stream" in (complaint(**{"x-queue-type": kind, name: value}) or "")
    assert "only a stream" in (complaint(**{"x-retention": "1h", name: value}) or "")


def test_a_compacted_log_has_no_copies_and_keeps_a_key_in_one_partition() -> None:
    stream: dict[str, object] = {"x-queue-type": "stream", "x-cleanup-policy": "compact"}
    assert "the copies would differ" in (complaint(**stream, **{"x-remote-storage": True}) or "")
    assert complaint(**stream, **{"x-remote-storage": False}) is None
    spread: dict[str, object] = {"x-partitions": 4, "x-partition-strategy": "round-robin"}
    assert "spreads a key" in (complaint(**stream, **spread) or "")
    keyed: dict[str, object] = {"x-partitions": 4, "x-partition-key": "customer"}
    assert complaint(**stream, **keyed) is None


def test_a_retention_is_forced_only_where_there_is_one() -> None:
    assert complaint(x_retention="1h", x_retention_force=True) is None
    assert complaint(**{"x-queue-type": "stream", "x-retention-force": False}) is None
    assert "keeps no log" in (complaint(x_retention_force=True) or "")
    assert "unacceptable type" in (complaint(x_retention="1h", x_retention_force="yes") or "")


def test_unknown_arguments_are_taken_as_they_are() -> None:
    for value in EACH_TYPE:
        assert complaint(**{"x-whatever": value, "ha-mode": value}) is None


# -- redeclaration


def difference(current: dict[str, object], received: dict[str, object]) -> str | None:
    try:
        check_equivalent("q", "/", current, received)
    except QueueInequivalent as error:
        return str(error)
    return None


def test_equal_arguments_are_equivalent_whatever_their_order_and_the_unknown_ones() -> None:
    current: dict[str, object] = {"x-max-length": 5, "x-expires": 1000, "x-other": 1}
    assert difference(current, {"x-expires": 1000, "x-max-length": 5}) is None
    assert difference({}, {"x-other": 5}) is None


@pytest.mark.parametrize("name", KNOWN)
def test_each_known_argument_must_be_the_same(name: str) -> None:
    assert difference({name: 5}, {name: 5}) is None
    assert difference({name: 5}, {name: 6}) is not None
    assert difference({name: 5}, {}) is not None
    assert difference({}, {name: 5}) is not None


def test_who_says_the_type_that_is_meant_without_it_says_the_same() -> None:
    assert difference({"x-queue-type": "classic"}, {}) is None
    assert difference({}, {"x-queue-type": "classic"}) is None
    assert difference({"x-queue-type": "quorum"}, {}) is not None


def test_who_says_the_partition_strategy_that_is_meant_without_it_says_the_same() -> None:
    for strategy, is_same in (("key", True), ("round-robin", False), ("header", False)):
        said = {"x-partitions": 4, "x-partition-strategy": strategy}
        assert (difference(said, {"x-partitions": 4}) is None) is is_same
        assert (difference({"x-partitions": 4}, said) is None) is is_same


def test_the_difference_is_named() -> None:
    assert difference({"x-max-length": 5}, {"x-max-length": 6}) == (
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'"
    )
    assert difference({"x-single-active-consumer": True}, {}) == (
        "inequivalent arg 'x-single-active-consumer' for queue 'q' in vhost '/': "
        "received none but current is the value 'true' of type 'bool'"
    )
    assert difference({"x-max-length": 5}, {"x-max-length": "6"}) == (
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': "
        "received the value '6' of type 'longstr' but current is the value '5' of type 'signedint'"
    )
    assert difference({"x-expires": 5}, {}) == (
        "inequivalent arg 'x-expires' for queue 'q' in vhost '/': "
        "received none but current is the value '5' of type 'signedint'"
    )


# -- retention


@pytest.mark.parametrize(
    ("age", "seconds"),
    [("90s", 90), ("2m", 120), ("1h", 3600), ("1D", 86_400), ("1d", 86_400), ("1Y", 31_536_000)],
)
def test_retention_is_in_microseconds(age: str, seconds: int) -> None:
    assert retention({"x-retention": age}) == Retention(seconds * 1_000_000)


def test_an_age_fits_into_64_bits_whatever_it_says() -> None:
    assert retention({"x-retention": "999999999Y"}) == Retention(2**62)


def test_a_stream_keeps_what_its_limits_allow() -> None:
    stream = {"x-queue-type": "stream"}
    assert retention(stream) == Retention(is_stream=True)
    limits = {"x-max-age": "2h", "x-max-length-bytes": 5_000}
    assert retention(stream | limits) == Retention(
        is_stream=True, age_max=7_200_000_000, bytes_max=5_000
    )
    assert retention(stream | {"x-retention-force": True}) == Retention(
        is_stream=True, is_forced=True
    )
    assert retention(limits) is None


def test_a_compacted_stream_keeps_deletions_for_a_day() -> None:
    stream: dict[str, object] = {"x-queue-type": "stream", "x-cleanup-policy": "compact"}
    day, hour = 86_400_000_000, 3_600_000_000
    assert retention(stream) == Retention(is_stream=True, compaction=Compaction("", day, 0))
    more = {"x-delete-retention": "1h", "x-min-compaction-lag": "2h", "x-partition-key": "k"}
    assert retention(stream | more) == Retention(
        is_stream=True, compaction=Compaction("k", hour, 2 * hour)
    )
    assert retention(stream | {"x-max-age": "1h"}) == Retention(
        is_stream=True, age_max=hour, compaction=Compaction("", day, 0)
    )
    # A policy says it of a stream that could not say it itself.
    spread = {"x-partitions": 3, "x-partition-strategy": "round-robin"}
    for other in ({"x-remote-storage": True}, spread):
        kept = retention({**stream, **other})
        assert kept is not None
        assert kept.compaction is None
    assert retention({"x-retention": "1h", "x-cleanup-policy": "compact"}) == Retention(hour)
    assert retention(stream | {"x-cleanup-policy": "delete"}) == Retention(is_stream=True)


@pytest.mark.parametrize("value", [None, 5, "", "5", "x"])
def test_without_retention_settled_messages_go_at_once(value: object) -> None:
    assert retention({"x-retention": value}) is None
    assert retention({}) is None


def test_compression_is_what_the_queue_says_if_it_does() -> None:
    assert compression({"x-compression": "zstd"}) == "zstd"
    assert compression({"x-compression": "none"}) == "none"
    assert compression({}) is None


# -- replicas


@pytest.mark.parametrize("value", EACH_TYPE, ids=repr)
def test_only_a_quorum_queue_has_a_group_of_some_size(value: object) -> None:
    arguments = {"x-quorum-initial-group-size": value}
    assert (complaint(x_queue_type="quorum", **arguments) is None) is (type(value) is int)
    assert complaint(x_queue_type="quorum", x_quorum_initial_group_size=0) is not None
    for other in ("classic", "stream"):
        refusal = complaint(x_queue_type=other, x_quorum_initial_group_size=3)
        assert refusal is not None
        assert "only queues of type 'quorum'" in refusal


# -- durability


@pytest.mark.parametrize("level", Durability)
def test_the_argument_beats_the_default(level: Durability) -> None:
    for default in Durability:
        assert durability({"x-durability": str(level)}, default) is level
        assert durability({}, default) is default
        assert durability({"x-durability": "mirrored"}, default) is Durability.DISK


def test_a_quorum_queue_is_mirrored_unless_it_says_something_else() -> None:
    for default in Durability:
        assert durability({"x-queue-type": "quorum"}, default) is Durability.DISK
        assert durability({"x-queue-type": "stream"}, default) is default
        chosen = {"x-queue-type": "quorum", "x-durability": str(default)}
        assert durability(chosen, Durability.MEMORY) is default


@pytest.mark.parametrize("value", EACH_TYPE, ids=repr)
def test_a_durability_is_one_of_four_words(value: object) -> None:
    assert complaint(x_durability=value) is not None
    for level in ("memory", "os", "disk", "mirrored"):
        assert complaint(x_durability=level) is None


@pytest.mark.parametrize("level", [*Durability, "mirrored"])
def test_a_queue_that_is_not_stored_promises_memory_only(level: str) -> None:
    arguments = {"x-durability": str(level)}
    check_durability("q", "/", arguments, True)
    check_durability("q", "/", {}, False)
    if level is Durability.MEMORY:
        check_durability("q", "/", arguments, False)
    else:
        with pytest.raises(InvalidQueueArgument, match="only durable queues"):
            check_durability("q", "/", arguments, False)
