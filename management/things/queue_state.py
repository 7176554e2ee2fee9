"""Whether a queue keeps up, and if not, why: one sentence, and what would help."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from routelog.management.figures.charts import at_age, samples
from routelog.management.figures.numbers import as_count, as_rate, as_span
from routelog.management.sampling.history import grows

RATE_SECONDS = 60  # what a rate is taken over
IDLE_RATE = 0.05  # messages a second, below which nothing happens


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of a queue.

    Attributes:
        word: for a badge.
        kind: of the badge: "good", "warn", "bad" or plain.
        growth: of the last minute: ready messages more in a second; below zero: fewer.
    """

    word: str
    kind: str
    told: str
    advice: str
    growth: float


def queue_state(
    row: Mapping[str, Any], consumers: list[Mapping[str, Any]], least: int
) -> QueueState:
    """The state of a queue.

    Args:
        row: of the API, with samples.
        consumers: rows of the API.
        least: fewer messages are no finding.
    """
    growth = _slope(row["messages_ready_details"])
    is_growing = growth > 0 and grows(at_age(row["messages_ready_details"]), least)
    coming, going = _rate_over(row, "publish"), _rate_over(row, "deliver_get")
    ready, count = row["messages_ready"], row["consumers"]

    def state(word: str, kind: str, told: str, advice: str = "") -> QueueState:
        return QueueState(word, kind, told, advice, growth)

    if row["state"] == "paused":
        told = f"It is paused: nothing goes out, and {as_rate(coming)} come in."
        return state("paused", "warn", told, "Consumers wait until it is resumed.")
    if row["type"] == "stream":
        told = f"It takes {as_rate(coming)} in; who reads goes at a pace of his own."
        return state("stream", "brand", told)
    if ready and not count:
        told = (
            f"{as_count(ready)} message{_s(ready)} wait{_s(ready, verb=True)}, and nobody consumes."
        )
        return state("no consumer", "bad", told, "They stay until a consumer comes.")
    full = _full(row)
    if full:
        return state("full", "bad", *full)
    if ready and consumers and all(_is_busy(each) for each in consumers):
        told = "Every consumer has as many unacknowledged messages as its prefetch allows."
        busy = (
            "Deliveries go on as they acknowledge: look at what they do, or take a larger prefetch."
        )
        if not is_growing:
            return state("busy", "warn", told, busy)
    if is_growing:
        told = (
            f"It takes in more than {count} consumer{_s(count)} give{_s(count, verb=True)} out:"
            f" {as_rate(coming)} against {as_rate(going)}."
        )
        return state("growing", "warn", told, _growing(row, growth))
    if max(coming, going) < IDLE_RATE:
        told = "Nothing comes and nothing goes." if not ready else "Nothing goes out."
        return state("idle", "", told)
    told = f"It keeps up: {as_rate(coming)} in, {as_rate(going)} out."
    return state("running", "good", told)


def rate_of(row: Mapping[str, Any], name: str) -> float:
    """How many messages a second: published, delivered, acknowledged; 0 where there was none yet."""
    details = row.get("message_stats", {}).get(f"{name}_details")
    return float(details["rate"]) if details else 0.0


def setting(row: Mapping[str, Any], name: str) -> Any:
    """The value of a setting in force; None: it has none."""
    return next((each["value"] for each in row["settings"] if each["name"] == name), None)


def _rate_over(row: Mapping[str, Any], name: str) -> float:
    """The rate of the last minute: that of a moment says less."""
    details = row.get("message_stats", {}).get(f"{name}_details")
    return _slope(details) if details else 0.0


def _slope(details: Mapping[str, Any]) -> float:
    times, values = samples(details)
    last = times[-1]
    since = next((at for at, time in enumerate(times) if time >= last - RATE_SECONDS), 0)
    passed = last - times[since]
    return (values[-1] - values[since]) / passed if passed else 0.0


def _growing(row: Mapping[str, Any], growth: float) -> str:
    most, overflow = setting(row, "x-max-length"), setting(row, "x-overflow")
    advice = "More consumers would help, or faster ones."
    if isinstance(most, int) and most > row["messages_ready"]:
        left = as_span((most - row["messages_ready"]) / growth)
        advice += (
            f" At this rate its limit of {as_count(most)} messages is reached in {left}; then "
        )
        advice += _what_then(row, overflow)
    return advice


def _full(row: Mapping[str, Any]) -> tuple[str, str] | None:
    most = setting(row, "x-max-length")
    if not isinstance(most, int) or row["messages_ready"] < most or not most:
        return None
    told = f"It is full: {as_count(most)} messages are its limit."
    then = _what_then(row, setting(row, "x-overflow"))
    return told, then[:1].upper() + then[1:]


def _what_then(row: Mapping[str, Any], overflow: object) -> str:
    if overflow in ("reject-publish", "reject-publish-dlx"):
        return "publishers are refused."
    is_dead = setting(row, "x-dead-letter-exchange") is not None
    return f"the oldest are {'dead-lettered' if is_dead else 'dropped'}."


def _is_busy(consumer: Mapping[str, Any]) -> bool:
    prefetch = consumer["prefetch_count"]
    return bool(prefetch) and consumer["messages_unacknowledged"] >= prefetch


def _s(count: float, *, verb: bool = False) -> str:
    return "s" if (count == 1) == verb else ""
