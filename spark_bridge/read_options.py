"""The options of a read, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from spark_bridge.errors import BadOption
from spark_bridge.log_directory import LogDirectory
from spark_bridge.log_store import LogStore
from spark_bridge.offset_limit import EARLIEST, LATEST, OffsetLimit, parse_offset_limit
from spark_bridge.queue_selection import QueueSelection, parse_selection

OPTIONS = (
    "assign",
    "endingOffsets",
    "failOnDataLoss",
    "maxRecordsPerPartition",
    "minPartitions",
    "path",
    "startingOffsets",
    "subscribe",
    "subscribePattern",
    "vhost",
)

_CANONICAL = {option.lower(): option for option in OPTIONS}
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one batch query asks for.

    Attributes:
        path: the broker's data directory.
        vhost: of the queues.
        selection: which of its queues.
        starting, ending: which of their offsets.
        partitions_min: of Spark's tasks; None lets the stored segments decide.
        records_max: offsets of one task at most; None for no limit.
        fail_on_data_loss: offsets that are asked for and not there are an error.
    """

    path: Path
    vhost: str
    selection: QueueSelection
    starting: OffsetLimit
    ending: OffsetLimit
    partitions_min: int | None
    records_max: int | None
    fail_on_data_loss: bool

    def open_store(self) -> LogStore:
        """Where the logs are.

        Raises:
            BadOption: they are not there, as seen from this host.
        """
        return LogDirectory(self.path)


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check options as Spark hands them over: names in any case, values as text.

    Raises:
        BadOption: names the first that is unknown, missing, or has a value that makes no sense.
    """
    options = {_canonical(name): value for name, value in given.items()}
    if not options.get("path"):
        raise BadOption("path", "give the broker's data directory")
    return ReadOptions(
        Path(options["path"]),
        options.get("vhost", "/"),
        parse_selection(options),
        _offset_limit(options, "startingOffsets", "earliest", refused=LATEST),
        _offset_limit(options, "endingOffsets", "latest", refused=EARLIEST),
        _positive(options, "minPartitions"),
        _positive(options, "maxRecordsPerPartition"),
        _boolean(options, "failOnDataLoss", default=True),
    )


def _canonical(name: str) -> str:
    try:
        return _CANONICAL[name.lower()]
    except KeyError:
        near = get_close_matches(name.lower(), _CANONICAL, 1)
        hint = f"did you mean {_CANONICAL[near[0]]}?" if near else f"there are {', '.join(OPTIONS)}"
        raise BadOption(name, f"unknown; {hint}") from None


def _offset_limit(
    options: Mapping[str, str], option: str, default: str, *, refused: int
) -> OffsetLimit:
    return parse_offset_limit(option, options.get(option, default), refused=refused)


def _positive(options: Mapping[str, str], option: str) -> int | None:
    text = options.get(option)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise BadOption(option, f"expected a number above 0, not '{text}'")
    return int(text)


def _boolean(options: Mapping[str, str], option: str, *, default: bool) -> bool:
    text = options.get(option)
    if text is None:
        return default
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise BadOption(option, f"expected true or false, not '{text}'") from None
