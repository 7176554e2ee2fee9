"""The options of a read, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend import BadBucket, check_address, without_secrets
from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.logs.http_endpoint import TLS_OPTIONS, HttpEndpoint, parse_endpoint
from routelog.spark_bridge.logs.log_place import NO_TICKET, LogPlace
from routelog.spark_bridge.logs.offset_limit import (
    EARLIEST,
    LATEST,
    Limit,
    OffsetLimit,
    parse_offset_limit,
    parse_time_limit,
    parse_time_limits,
)
from routelog.spark_bridge.logs.queue_selection import QueueSelection, parse_selection
from routelog.spark_bridge.logs.readable_logs import ReadableLogs, Ticket
from routelog.spark_bridge.reading.option_values import OptionValues, canonical_names

TRIGGER_OPTIONS = (
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
)

HTTP_OPTIONS = ("consumerName", "fetchRetries", "fetchTimeout", *TLS_OPTIONS)

OPTIONS = (
    "assign",
    "columns",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    *HTTP_OPTIONS,
    *TRIGGER_OPTIONS,
    "maxBytesPerPartition",
    "maxRecordsPerPartition",
    "minPartitions",
    "path",
    "pushdown",
    "remote",
    "schemaStyle",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "url",
    "vhost",
)

TASK_BYTES_MAX = 128 * 1024 * 1024  # two full segments; the same as Spark's limit for files

_LIMIT_KINDS = ("Offsets", "OffsetsByTimestamp", "Timestamp")  # of startings and endings


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """Limits of one micro-batch of a stream; None: no limit.

    Attributes:
        records_max, records_min: offsets of all partitions together.
        delay_max: seconds that a micro-batch waits at most for `records_min`.
        bytes_max: of bodies.
    """

    records_max: int | None
    records_min: int | None
    delay_max: float
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of one query.

    Attributes:
        place: of the logs.
        consumer: the name under which a stream reports its position to the broker; empty: it does not.
        vhost: of the queues.
        selection: of the queues.
        starting, ending: of the offsets.
        starting_is_given: `starting` is not the default.
        partitions_min: number of Spark's tasks; None: it follows from the bytes of the segments.
        bytes_max: approximate stored bytes of one task.
        records_max: limit of offsets of one task; None: no limit.
        fail_on_data_loss: missing offsets are an error.
        trigger: limits for streams.
        trigger_options: names of the trigger's options that are given.
        style: of the columns, `routelog` or `kafka`.
        headers: they are among the columns.
        columns: the chosen columns; None: all.
        pushdown: conditions on offset, partition and time limit what is read.
    """

    place: LogPlace
    consumer: str
    vhost: str
    selection: QueueSelection
    starting: Limit
    ending: Limit
    starting_is_given: bool
    partitions_min: int | None
    bytes_max: int
    records_max: int | None
    fail_on_data_loss: bool
    trigger: TriggerLimits
    trigger_options: tuple[str, ...]
    style: str
    headers: bool
    columns: tuple[str, ...] | None
    pushdown: bool

    def open_store(self, ticket: Ticket = NO_TICKET) -> ReadableLogs:
        """Open the logs: see `LogPlace.open`."""
        return self.place.open(ticket)

    def check_batch(self) -> None:
        """Refuse options that are for streams only.

        Raises:
            BadOption: names the option.
        """
        if self.consumer:
            raise BadOption("consumerName", "is for streams, which go on where they were")
        if self.trigger_options:
            raise BadOption(self.trigger_options[0], "limits a stream's micro-batches only")
        if isinstance(self.starting, OffsetLimit) and self.starting.asks_for(LATEST):
            raise BadOption("startingOffsets", "cannot be latest (-1) in a batch query")


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse options as Spark passes them: names in any case, values as text.

    Raises:
        BadOption: names the first option that is unknown, missing or invalid.
    """
    options = canonical_names(given, OPTIONS)
    values = OptionValues(options)
    style = values.choice("schemaStyle", "routelog", "routelog", "kafka")
    return ReadOptions(
        _place(values),
        _consumer(values),
        options.get("vhost", "/"),
        parse_selection(options),
        _starting(values),
        _ending(values),
        any(f"starting{kind}" in options for kind in _LIMIT_KINDS),
        values.positive("minPartitions"),
        values.size("maxBytesPerPartition") or TASK_BYTES_MAX,
        values.positive("maxRecordsPerPartition"),
        values.boolean("failOnDataLoss", default=True),
        _trigger_limits(values),
        tuple(option for option in TRIGGER_OPTIONS if option in options),
        style,
        values.boolean("includeHeaders", default=style == "routelog"),
        _columns(values),
        values.boolean("pushdown", default=False),
    )


def _place(values: OptionValues) -> LogPlace:
    path, url, remote = (values.text(option, "") for option in ("path", "url", "remote"))
    if remote:
        _check_remote(remote)
    if path and url:
        raise BadOption("path", "give either path or url")
    if not (path or url or remote):
        reason = "give the broker's data directory, or its HTTP address with the option url"
        raise BadOption("path", f"{reason}, or remote storage with the option remote")
    if url:
        return LogPlace(None, _endpoint(values, url), remote)
    for option in HTTP_OPTIONS:
        if option in values:
            raise BadOption(option, "is for logs that are read from a url")
    return LogPlace(Path(path) if path else None, None, remote)


def _check_remote(remote: str) -> None:
    try:
        check_address(remote)
    except BadBucket as error:
        raise BadOption("remote", f"{without_secrets(remote)}: {error}") from None


def _endpoint(values: OptionValues, url: str) -> HttpEndpoint:
    tls = {option: values.text(option, "") for option in TLS_OPTIONS if option in values}
    timeout = values.seconds("fetchTimeout", "2m")
    if not timeout:
        raise BadOption("fetchTimeout", "expected more than 0")
    return parse_endpoint(url, tls, timeout, values.number("fetchRetries", 3))


def _consumer(values: OptionValues) -> str:
    name = values.name("consumerName")
    if name == "":
        raise BadOption("consumerName", "is empty")
    return name or ""


def _starting(values: OptionValues) -> Limit:
    strategy = values.choice("startingOffsetsByTimestampStrategy", "error", "error", "latest")
    return _limit(values, "starting", "earliest", must_match=strategy == "error")


def _ending(values: OptionValues) -> Limit:
    limit = _limit(values, "ending", "latest", must_match=False)
    if isinstance(limit, OffsetLimit) and limit.asks_for(EARLIEST):
        raise BadOption("endingOffsets", "cannot be earliest (-2)")
    return limit


def _limit(values: OptionValues, side: str, default: str, *, must_match: bool) -> Limit:
    """The first given one of three options counts, as in Spark's Kafka source; all must be valid."""
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
