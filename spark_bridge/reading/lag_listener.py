"""Reports the lag of a session's streams after each micro-batch."""

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from routelog.log_backend import SystemClock
from routelog.spark_bridge.logs.http_endpoint import parse_endpoint
from routelog.spark_bridge.logs.log_place import LogPlace
from routelog.spark_bridge.logs.readable_logs import LogPartition, ReadableLogs
from routelog.spark_bridge.reading.lag import StreamLag, partition_lags
from routelog.spark_bridge.reading.stored_offsets import parse_offsets

log = logging.getLogger(__name__)

FETCH_SECONDS = 10.0  # nothing but the listener waits for it
FETCH_RETRIES = 1

Report = Callable[[StreamLag], None]


class LagListener(StreamingQueryListener):
    """Compares the offsets of a finished micro-batch with the logs, on the driver.

    A source cannot do this: Spark tells it that a micro-batch is done when it plans the next one, and never
    tells it of the last one.

    Args:
        place: the broker's data directory, or the address of its HTTP API, as in the option `path` or `url`.
        vhost: of the queues.
        remote: address of remote storage, as in the option `remote`; empty: none.
        query: name of a query, for sessions with several sources; None: all queries that read this vhost.
        report: called after each micro-batch; by default, it writes to the log.

    Attributes:
        lags: the last lag of each query, by its name, or by its id if it has none.
    """

    def __init__(
        self,
        place: str,
        vhost: str = "/",
        *,
        remote: str = "",
        query: str | None = None,
        report: Report | None = None,
    ) -> None:
        self.lags: dict[str, StreamLag] = {}
        self._store = _store(place, remote)
        self._vhost = vhost
        self._query = query
        self._report = report or _log
        self._clock = SystemClock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Measure and report; a failure is logged here, because Spark would ignore it."""
        progress = event.progress
        name = progress.name or str(progress.id)
        if self._query not in {None, name}:
            return
        try:
            position = self._position(source.endOffset for source in progress.sources)
            if not position:
                return
            lags = partition_lags(self._store, position, self._clock.now())
            lag = self.lags[name] = StreamLag(name, progress.batchId, lags)
            self._report(lag)
        except Exception:
            log.exception("the lag of the query %s is not known", name)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last lag stays in `lags`."""

    def _position(self, offsets: Iterable[str]) -> dict[LogPartition, int]:
        """Parse the offsets of our sources; those of other sources are ignored."""
        position: dict[LogPartition, int] = {}
        for text in offsets:
            try:
                position |= parse_offsets(self._vhost, json.loads(text))
            except (ValueError, TypeError, AttributeError):
                continue
        there = self._store.partitions(self._vhost, {each.queue for each in position})
        return {each: position[each] for each in there if each in position}


def _store(place: str, remote: str) -> ReadableLogs:
    if place.startswith(("http://", "https://")):
        endpoint = parse_endpoint(place, {}, FETCH_SECONDS, FETCH_RETRIES)
        return LogPlace(endpoint=endpoint, remote=remote).open()
    return LogPlace(Path(place), remote=remote).open()


def _log(lag: StreamLag) -> None:
    log.info("query %s, batch %d: %s", lag.query, lag.batch, lag.metrics())
