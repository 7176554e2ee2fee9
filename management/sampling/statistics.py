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
    ExchangeFlow,
    MessageCounters,
    Queue,
    TrafficCounters,
    VirtualHost,
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


class _Time(NamedTuple):
    # Of one sample: in milliseconds since 1970, and in monotonic seconds.
    timestamp: int
    monotonic: float


_Source = tuple[History | None, Sequence[int]]  # the samples, and the values without any


class BadSpan(Exception):
    """The samples that a query asks for cannot be given."""


def requested_span(query: Mapping[str, str], kind: str) -> Span | None:
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
        BadSpan: see `requested_span`.
    """

    def __init__(self, sampler: Sampler, clock: Clock, query: Mapping[str, str]) -> None:
        self._sampler = sampler
        # Of the newest sample: what came since is not in any.
        age = int((clock.monotonic() - sampler.since) * 1_000_000)
        now = Moment(clock.now() - age, sampler.since)
        self._lengths_times = _times(now, requested_span(query, "lengths"))
        self._messages_times = _times(now, requested_span(query, "msg_rates"))
        self._data_times = _times(now, requested_span(query, "data_rates"))
        # Most of a long list is empty and idle: it shares the samples of that, by the identity of their times.
        self._nothing: dict[int, dict[str, Any]] = {}

    def of_queue(self, queue: Queue, ready: int, unacked: int) -> dict[str, Any]:
        """The details of a queue's lengths, and its messages."""
        counters = queue.counters
        source, first = self._source(counters, (ready, unacked)), len(counters.NAMES)
        capacity = self._sampler.consumer_capacity(queue)
        row: dict[str, Any] = {"consumer_capacity": capacity, "consumer_utilisation": capacity}
        for name, columns in _LENGTHS.items():
            at = [first + column for column in columns]
            row[f"{name}_details"] = self._details([source], at, columns, self._lengths_times)
        return row | self.messages(counters)

    def lengths(self, of: Sequence[object], ready: int, unacked: int) -> dict[str, Any]:
        """The lengths of all queues of some vhosts, or of the node, with details.

        Args:
            of: the counters of the vhosts, or of the node.
        """
        values = ready, unacked
        sources = [self._source(each, (0, 0)) for each in of]
        row: dict[str, Any] = {}
        for name, columns in _LENGTHS.items():
            row[name] = sum(values[at] for at in columns)
            row[f"{name}_details"] = self._details(sources, columns, columns, self._lengths_times)
        return row

    def sampled_lengths(self, vhost: VirtualHost) -> dict[str, Any]:
        """As `lengths`, of a vhost at the newest sample; empty before the first."""
        sampled = self._sampler.lengths(vhost.name)
        return {} if sampled is None else self.lengths([vhost.counters], *sampled)

    def idle_since(self, counters: Counters, started_at: float) -> dict[str, Any]:
        """Since when nothing has changed; empty while something does.

        Args:
            started_at: of the node, in monotonic seconds: what has not changed since is idle since then.
        """
        if counters.is_noted or counters.sampled_at >= self._sampler.since:
            return {}
        seconds = self._sampler.epoch + (counters.sampled_at or started_at)
        since = datetime.fromtimestamp(seconds, UTC)
        return {"idle_since": since.isoformat(timespec="milliseconds")}

    def messages(self, *counters: MessageCounters | ExchangeCounters | None) -> dict[str, Any]:
        """The message_stats of a queue, channel, exchange or vhost, or of several together.

        Returns:
            Empty without any message.
        """
        there = [each for each in counters if each is not None]
        if not there:
            return {}
        counts = dict.fromkeys(there[0].NAMES, 0)
        for each in there:
            for name, value in zip(each.NAMES, each.values(), strict=True):
                counts[name] += value
        measures = _measures(counts, is_queue=getattr(there[0], "owner", None) is not None)
        if not measures:
            return {}
        return {"message_stats": self._measured(there, measures, self._messages_times)}

    def flow(self, flow: ExchangeFlow | MessageCounters) -> dict[str, Any]:
        """The counts of a flow, and their rates."""
        counts = dict(zip(flow.NAMES, flow.values(), strict=True))
        is_idle = not flow.rates or flow.sampled_at < self._sampler.since
        rates = dict.fromkeys(counts, 0.0)
        if not is_idle:
            rates = dict(zip(flow.NAMES, flow.rates, strict=True))
        row: dict[str, Any] = {}
        measures = _each(PUBLISHED[:1]) if isinstance(flow, ExchangeFlow) else _deliveries()
        for measure, parts in measures.items():
            row[measure] = sum(counts[part] for part in parts)
            rate = sum(rates[part] for part in parts)
            row[f"{measure}_details"] = {"rate": round(rate, 3)}
        return row

    def traffic(self, counters: TrafficCounters) -> dict[str, Any]:
        """The bytes, reads and writes of a connection."""
        return self._measured([counters], _each(counters.NAMES), self._data_times)

    def churn(self, counters: ChurnCounters) -> dict[str, Any]:
        """How often connections, channels and queues came and went."""
        return self._measured([counters], _each(counters.NAMES), self._messages_times)

    def _measured(
        self,
        counters: Sequence[Counters | ChurnCounters],
        measures: Mapping[str, Sequence[str]],
        times: Sequence[_Time],
    ) -> dict[str, Any]:
        names = counters[0].NAMES
        sources = [self._source(each, each.values()) for each in counters]
        row: dict[str, Any] = {}
        for measure, parts in measures.items():
            columns = [names.index(part) for part in parts]
            row[measure] = sum(values[at] for _, values in sources for at in columns)
            row[f"{measure}_details"] = self._details(sources, columns, columns, times)
        return row

    def _source(self, of: object, values: Sequence[int]) -> _Source:
        return self._sampler.history(of), values

    def _details(
        self,
        sources: Sequence[_Source],
        columns: Sequence[int],
        value_columns: Sequence[int],
        times: Sequence[_Time],
    ) -> dict[str, Any]:
        rate = sum(self._sampler.rate(history, columns) for history, _ in sources)
        details: dict[str, Any] = {"rate": round(rate, 3)}
        if not times:
            return details
        histories = [history for history, _ in sources if history is not None]
        steady = [values for history, values in sources if history is None]
        now = sum(values[at] for values in steady for at in value_columns)
        if not (now or histories):
            return details | self._of_nothing(times)
        samples = [now] * len(times)
        for history in histories:
            for at, (_, time) in enumerate(times):
                samples[at] += history.at(time, columns)
        return details | _sampled(samples, times)

    def _of_nothing(self, times: Sequence[_Time]) -> dict[str, Any]:
        found = self._nothing.get(id(times))
        if found is None:
            found = self._nothing[id(times)] = _sampled([0] * len(times), times)
        return found


def _sampled(samples: Sequence[int], times: Sequence[_Time]) -> dict[str, Any]:
    seconds = times[0].monotonic - times[-1].monotonic
    return {
        "samples": [
            {"sample": sample, "timestamp": time.timestamp}
            for sample, time in zip(samples, times, strict=True)
        ],
        "avg_rate": (samples[0] - samples[-1]) / seconds if seconds else 0.0,
        "avg": sum(samples) / len(samples),
    }


def _times(now: Moment, wanted: Span | None) -> list[_Time]:
    # The newest first, at whole multiples of the time between two.
    if wanted is None:
        return []
    milliseconds, incr = now.now // 1_000, wanted.incr * 1_000
    last = milliseconds - milliseconds % incr
    timestamps = [last - at * incr for at in range(wanted.age // wanted.incr + 1)]
    return [_Time(each, now.monotonic - (milliseconds - each) / 1_000) for each in timestamps]


def _each(names: Sequence[str]) -> dict[str, Sequence[str]]:
    return {name: (name,) for name in names}


def _deliveries() -> dict[str, Sequence[str]]:
    return {**_each(DELIVERED), "deliver_get": _DELIVER_GET}


def _measures(counts: Mapping[str, int], is_queue: bool) -> dict[str, Sequence[str]]:
    """What is shown of counts, and which of them are its sum."""
    if "publish_in" in counts:
        return _each(list(counts)) if any(counts.values()) else {}
    measures: dict[str, Sequence[str]] = {}
    published = PUBLISHED[:1] if is_queue else PUBLISHED
    if any(counts[name] for name in published):
        measures |= _each(published)
    if any(counts[name] for name in DELIVERED):
        measures |= _deliveries()
    if is_queue and any(counts[name] for name in _DROPPED):
        measures["drop"] = _DROPPED
    return measures
