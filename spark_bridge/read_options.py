"""The options of a read, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_bridge.errors import BadOption
from spark_bridge.log_directory import LogDirectory
from spark_bridge.log_store import LogStore
from spark_bridge.offset_limit import (
    EARLIEST,
    LATEST,
    Limit,
    OffsetLimit,
    parse_offset_limit,
    parse_time_limit,
    parse_time_limits,
)
from spark_bridge.option_values import OptionValues, canonical_names
from spark_bridge.queue_selection import QueueSelection, parse_selection

TRIGGER_OPTIONS = (
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
)

OPTIONS = (
    "assign",
    "columns",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    *TRIGGER_OPTIONS,
    "maxRecordsPerPartition",
    "minPartitions",
    "path",
    "pushdown",
    "schemaStyle",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "vhost",
)

_LIMIT_KINDS = ("Offsets", "OffsetsByTimestamp", "Timestamp")  # of startings and endings


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much one micro-batch of a stream takes; None for no limit.

    Attributes:
        records_max, records_min: offsets, of all partitions together.
        delay_max: seconds that records wait for others until there are `records_min`.
        bytes_max: of bodies.
    """

    records_max: int | None
    records_min: int | None
    delay_max: float
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one query asks for.

    Attributes:
        path: the broker's data directory.
        vhost: of the queues.
        selection: which of its queues.
        starting, ending: which of their offsets.
        starting_is_given: rather than the default.
        partitions_min: of Spark's tasks; None lets the stored segments decide.
        records_max: offsets of one task at most; None for no limit.
        fail_on_data_loss: offsets that are asked for and not there are an error.
        trigger: for streams.
        trigger_options: names of those given.
        style: of the columns, `routelog` or `kafka`.
        headers: whether they are among the columns.
        columns: the choice of them; None for all.
        pushdown: conditions on offset, partition and time choose what is read.
    """

    path: Path
    vhost: str
    selection: QueueSelection
    starting: Limit
    ending: Limit
    starting_is_given: bool
    partitions_min: int | None
    records_max: int | None
    fail_on_data_loss: bool
    trigger: TriggerLimits
    trigger_options: tuple[str, ...]
    style: str
    headers: bool
    columns: tuple[str, ...] | None
    pushdown: bool

    def open_store(self) -> LogStore:
        """Where the logs are.

        Raises:
            BadOption: they are not there, as seen from this host.
        """
        return LogDirectory(self.path)

    def check_batch(self) -> None:
        """Refuse what makes sense in streams only.

        Raises:
            BadOption: names it.
        """
        if self.trigger_options:
            raise BadOption(self.trigger_options[0], "limits a stream's micro-batches only")
        if isinstance(self.starting, OffsetLimit) and self.starting.asks_for(LATEST):
            raise BadOption("startingOffsets", "cannot be latest (-1) in a batch query")


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check options as Spark hands them over: names in any case, values as text.

    Raises:
        BadOption: names the first that is unknown, missing, or has a value that makes no sense.
    """
    options = canonical_names(given, OPTIONS)
    if not options.get("path"):
        raise BadOption("path", "give the broker's data directory")
    values = OptionValues(options)
    style = values.choice("schemaStyle", "routelog", "routelog", "kafka")
    return ReadOptions(
        Path(options["path"]),
        options.get("vhost", "/"),
        parse_selection(options),
        _starting(values),
        _ending(values),
        any(f"starting{kind}" in options for kind in _LIMIT_KINDS),
        values.positive("minPartitions"),
        values.positive("maxRecordsPerPartition"),
        values.boolean("failOnDataLoss", default=True),
        _trigger_limits(values),
        tuple(option for option in TRIGGER_OPTIONS if option in options),
        style,
        values.boolean("includeHeaders", default=style == "routelog"),
        _columns(values),
        values.boolean("pushdown", default=False),
    )


def _starting(values: OptionValues) -> Limit:
    strategy = values.choice("startingOffsetsByTimestampStrategy", "error", "error", "latest")
    return _limit(values, "starting", "earliest", must_match=strategy == "error")


def _ending(values: OptionValues) -> Limit:
    limit = _limit(values, "ending", "latest", must_match=False)
    if isinstance(limit, OffsetLimit) and limit.asks_for(EARLIEST):
        raise BadOption("endingOffsets", "cannot be earliest (-2)")
    return limit


def _limit(values: OptionValues, side: str, default: str, *, must_match: bool) -> Limit:
    """The one that counts of three options: in this order, as with Kafka; all must make sense."""
    offsets = parse_offset_limit(f"{side}Offsets", values.text(f"{side}Offsets", default))
    limits: list[Limit] = []
    for option, parse in (
        (f"{side}Timestamp", parse_time_limit),
        (f"{side}OffsetsByTimestamp", parse_time_limits),
    ):
        if option in values:
            limits.append(parse(option, values.text(option, ""), must_match=must_match))
    return [*limits, offsets][0]


def _trigger_limits(values: OptionValues) -> TriggerLimits:
    limits = TriggerLimits(
        values.positive("maxOffsetsPerTrigger"),
        values.positive("minOffsetsPerTrigger"),
        values.seconds("maxTriggerDelay", "15m"),
        values.size("maxBytesPerTrigger"),
    )
    least, most = limits.records_min, limits.records_max
    if least is not None and most is not None and least > most:
        raise BadOption("minOffsetsPerTrigger", f"{least} is above maxOffsetsPerTrigger, {most}")
    return limits


def _columns(values: OptionValues) -> tuple[str, ...] | None:
    if "columns" not in values:
        return None
    names = tuple(name.strip() for name in values.text("columns", "").split(","))
    if not all(names) or len(set(names)) < len(names):
        raise BadOption("columns", "expected different names, separated by commas")
    return names
