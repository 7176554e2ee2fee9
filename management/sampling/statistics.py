"""What counters say to operators, in RabbitMQ's words: totals, rates, and samples where they are asked for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from routelog.log_backend import Clock, Moment
from routelog.management.sampling.history import History
from routelog.management.sampling.sampler import Sampler
from routelog.vhosts import (
    ChurnCounters,
    Counters,
    ExchangeCounters,
    MessageCounters,
    Queue,
    TrafficCounters,
)

SPAN_SAMPLES_MAX = 500  # RabbitMQ's limit

PUBLISHED = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERED = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "redeliver",
    "ack",
)
_DELIVER_GET = ("deliver", "deliver_no_ack", "get", "get_no_ack")
_DROPPED = ("rejected", "expired", "maxlen", "delivery_limit")
_LENGTHS = {
    "messages": (0, 1),
    "messages_ready": (0,),
    "messages_unacknowledged": (1,),
}


class Span(NamedTuple):
    """Which samples are asked for: the age of the oldest, and the time between two, in seconds."""

    age: int
    incr: int


class BadSpan(Exception):
    """The samples that a query asks for cannot be given."""


def span(query: Mapping[str, str], kind: str) -> Span | None:
    """The span that a query asks for of one kind of numbers; None: it does not.

    Args:
        kind: lengths, msg_rates or data_rates.

    Raises:
        BadSpan: it is no number, or too many samples.
    """
    texts = query.get(f"{kind}_age"), query.get(f"{kind}_incr")
    if texts[0] is None or texts[1] is None:
        return None
    if not all(text and text.isascii() and text.isdigit() and len(text) < 7 for text in texts):
        raise BadSpan(f"{kind}_age and {kind}_incr are not numbers of seconds")
    found = Span(int(texts[0]), int(texts[1]))
    if found.incr < 1 or found.age // found.incr > SPAN_SAMPLES_MAX:
        raise BadSpan(f"{kind}: at most {SPAN_SAMPLES_MAX} samples are given")
    return found


class Statistics:
    """The statistics of one answer, all of one moment.

    Raises:
        BadSpan: see `span`.
    """

    def __init__(self, sampler: Sampler, clock: Clock, query: Mapping[str, str]) -> None:
        self._sampler = sampler
        self._now = Moment(clock.now(), clock.monotonic())
        self._lengths_span = span(query, "lengths")
        self._messages_span = span(query, "msg_rates")
        self._data_span = span(query, "data_rates")

    def of_queue(self, queue: Queue, ready: int, unacked: int) -> dict[str, Any]:
        """The details of a queue's lengths, and its messages."""
        counters = queue.counters
        history, first = self._sampler.history(counters), len(counters.NAMES)
        row: dict[str, Any] = {}
        values = ready, unacked
        for name, columns in _LENGTHS.items():
            value = sum(values[at] for at in columns)
            at = [first + column for column in columns]
            row[f"{name}_details"] = self._details(history, at, value, self._lengths_span)
        return row | self.messages(counters)

    def lengths(self, of: object, ready: int, unacked: int) -> dict[str, Any]:
        """The lengths of all queues of a vhost or of the node, with details."""
        history, values = self._sampler.history(of), (ready, unacked)
        row: dict[str, Any] = {}
        for name, columns in _LENGTHS.items():
            row[name] = value = sum(values[at] for at in columns)
            row[f"{name}_details"] = self._details(history, columns, value, self._lengths_span)
        return row

    def idle_since(self, counters: Counters, started_at: float) -> dict[str, Any]:
        """Since when nothing has changed; empty while something does.

        Args:
            started_at: of the node, in monotonic seconds: what has not changed since is idle since then.
        """
        if counters.is_noted or counters.sampled_at >= self._sampler.since:
            return {}
        seconds = self._now.monotonic - (counters.sampled_at or started_at)
        since = datetime.fromtimestamp(self._now.now / 1_000_000 - seconds, UTC)
        return {"idle_since": since.isoformat(timespec="milliseconds")}

    def messages(self, counters: MessageCounters | ExchangeCounters | None) -> dict[str, Any]:
        """The message_stats of a queue, channel, exchange, vhost or node; empty without any message."""
        stats = {} if counters is None else self._message_stats(counters)
        return {"message_stats": stats} if stats else {}

    def _message_stats(self, counters: MessageCounters | ExchangeCounters) -> dict[str, Any]:
        values, names = counters.values(), counters.NAMES
        measures: dict[str, Sequence[str]] = {}
        if isinstance(counters, ExchangeCounters):
            measures = {name: (name,) for name in names}
        else:
            counts = dict(zip(names, values, strict=True))
            if any(counts[name] for name in PUBLISHED):
                measures |= {
                    name: (name,)
                    for name in PUBLISHED
                    if name == "publish" or not _is_queue(counters)
                }
            if any(counts[name] for name in DELIVERED):
                measures |= {name: (name,) for name in DELIVERED}
                measures["deliver_get"] = _DELIVER_GET
            if any(counts[name] for name in _DROPPED):
                measures["drop"] = _DROPPED
        history = self._sampler.history(counters)
        return self._measured(history, names, values, measures, self._messages_span)

    def traffic(self, counters: TrafficCounters) -> dict[str, Any]:
        """The bytes, reads and writes of a connection."""
        measures = {name: (name,) for name in counters.NAMES}
        history = self._sampler.history(counters)
        return self._measured(history, counters.NAMES, counters.values(), measures, self._data_span)

    def churn(self, counters: ChurnCounters) -> dict[str, Any]:
        """How often connections, channels and queues came and went."""
        measures = {name: (name,) for name in counters.NAMES}
        history = self._sampler.history(counters)
        return self._measured(
            history, counters.NAMES, counters.values(), measures, self._messages_span
        )

    def _measured(
        self,
        history: History | None,
        names: Sequence[str],
        values: Sequence[int],
        measures: Mapping[str, Sequence[str]],
        wanted: Span | None,
    ) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for measure, parts in measures.items():
            columns = [names.index(part) for part in parts]
            row[measure] = value = sum(values[column] for column in columns)
            row[f"{measure}_details"] = self._details(history, columns, value, wanted)
        return row

    def _details(
        self, history: History | None, columns: Sequence[int], value: int, wanted: Span | None
    ) -> dict[str, Any]:
        rate = round(self._sampler.rate(history, columns), 3)
        if wanted is None:
            return {"rate": rate}
        samples = self._samples(history, columns, value, wanted)
        newest, oldest = samples[0]["sample"], samples[-1]["sample"]
        seconds = (len(samples) - 1) * wanted.incr
        return {
            "rate": rate,
            "samples": samples,
            "avg_rate": (newest - oldest) / seconds if seconds else 0.0,
            "avg": sum(each["sample"] for each in samples) / len(samples),
        }

    def _samples(
        self, history: History | None, columns: Sequence[int], value: int, wanted: Span
    ) -> list[dict[str, int]]:
        # The newest first, at whole multiples of the time between two.
        milliseconds = self._now.now // 1_000
        incr = wanted.incr * 1_000
        last = milliseconds - milliseconds % incr
        samples: list[dict[str, int]] = []
        for at in range(wanted.age // wanted.incr + 1):
            timestamp = last - at * incr
            time = self._now.monotonic - (milliseconds - timestamp) / 1_000
            sample = value if history is None else history.at(time, columns)
            samples.append({"sample": sample, "timestamp": timestamp})
        return samples


def _is_queue(counters: MessageCounters) -> bool:
    return counters.owner is not None
