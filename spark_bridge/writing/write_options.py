"""The options of a write, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.reading.option_values import OptionValues, canonical_names

OPTIONS = (
    "applicationId",
    "confirmTimeout",
    "deduplicationCacheSize",
    "exchange",
    "ignoreUnknownColumns",
    "mandatory",
    "persistent",
    "routingKey",
    "url",
)

CACHE_SIZE = 1_000_000  # up to 190 MB of the broker's memory

_OF_SPARK = {"checkpointlocation", "queryname"}  # Spark passes these to every sink of a stream


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are published.

    Attributes:
        url: of the broker, with user, password and vhost.
        exchange, routing_key: of all messages; None: each row has its own, in a column.
        mandatory: a message that reaches no queue fails the write.
        persistent: of messages without a `properties.delivery_mode`.
        confirm_seconds: longest time without a confirm while some are awaited.
        ignore_unknown_columns: ignore columns that are no part of a message.
        application: prefix of deduplication keys, by which the exchange takes each message once; empty: no
            deduplication.
        cache_size: how many keys the exchange remembers.
    """

    url: str
    exchange: str | None
    routing_key: str | None
    mandatory: bool
    persistent: bool
    confirm_seconds: float
    ignore_unknown_columns: bool
    application: str
    cache_size: int


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse options as Spark passes them: names in any case, values as text.

    Raises:
        BadOption: names the first option that is unknown, missing or invalid.
    """
    own = {name: value for name, value in given.items() if name.lower() not in _OF_SPARK}
    options = canonical_names(own, OPTIONS)
    values = OptionValues(options)
    url = values.text("url", "")
    if not _is_broker(url):
        # The value may hold a password, so it is not shown.
        raise BadOption("url", "expected a broker like amqp://user:password@host:5672/vhost")
    seconds = values.seconds("confirmTimeout", "1m")
    if seconds == 0:
        raise BadOption("confirmTimeout", "expected more than 0")
    application = values.text("applicationId", "")
    if "applicationId" in options and not application:
        raise BadOption("applicationId", "is empty")
    if application and not options.get("exchange"):
        reason = "needs the option exchange: one exchange that remembers what it has taken"
        raise BadOption("applicationId", reason)
    if not application and "deduplicationCacheSize" in options:
        raise BadOption("deduplicationCacheSize", "is of no use without applicationId")
    return WriteOptions(
        url,
        values.name("exchange"),
        values.name("routingKey"),
        values.boolean("mandatory", default=True),
        values.boolean("persistent", default=True),
        seconds,
        values.boolean("ignoreUnknownColumns", default=False),
        application,
        values.positive("deduplicationCacheSize") or CACHE_SIZE,
    )


def _is_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"amqp", "amqps"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no port
        return False
