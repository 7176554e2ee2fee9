"""What is said of a queue: by growth, by consumers, by its limits."""

from typing import Any

from routelog.management.things.queue_state import queue_state


def details(first: float, last: float) -> dict[str, Any]:
    """Samples of ten minutes on a line, the newest first, in milliseconds."""
    step = (last - first) / 60
    samples = [{"sample": first + step * at, "timestamp": at * 10_000} for at in range(61)]
    return {"rate": step / 10, "samples": samples[::-1]}


def row(
    ready: int = 0,
    *,
    before: int = 0,
    consumers: int = 1,
    coming: int = 0,
    going: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """A queue as the API shows it: `coming` and `going` messages in ten minutes."""
    return {
        "type": "classic",
        "state": "running",
        "messages_ready": ready,
        "consumers": consumers,
        "messages_ready_details": details(before, ready),
        "message_stats": {
            "publish_details": details(0, coming),
            "deliver_get_details": details(0, going),
        },
        "settings": [{"name": name, "value": value} for name, value in more.items()],
    }


def test_a_queue_that_takes_in_more_than_it_gives_out_is_growing() -> None:
    state = queue_state(row(60_000, coming=90_000, going=30_000), [], 100)
    assert (state.word, state.kind) == ("growing", "warn")
    assert state.told == "It takes in more than 1 consumer gives out: 150/s against 50/s."
    assert round(state.growth) == 100
    limited = row(60_000, coming=90_000, going=30_000, consumers=2, **{"x-max-length": 120_000})
    state = queue_state(limited, [], 100)
    assert "more than 2 consumers give out" in state.told
    assert "its limit of 120,000 messages is reached in 10 min; then the oldest are dropped." in (
        state.advice
    )


def test_a_queue_that_nobody_consumes_is_bad_when_something_waits() -> None:
    assert queue_state(row(consumers=0), [], 100).word == "idle"
    state = queue_state(row(1, before=1, consumers=0), [], 100)
    assert (state.word, state.kind) == ("no consumer", "bad")
    assert state.told == "1 message waits, and nobody consumes."
    assert "2 messages wait," in queue_state(row(2, before=2, consumers=0), [], 100).told


def test_a_full_queue_says_what_becomes_of_the_next_message() -> None:
    limit = {"x-max-length": 5}
    state = queue_state(row(5, before=5, **limit), [], 100)
    assert (state.word, state.advice) == ("full", "The oldest are dropped.")
    dead = {**limit, "x-dead-letter-exchange": "dlx"}
    assert queue_state(row(5, before=5, **dead), [], 100).advice == "The oldest are dead-lettered."
    refusing = {**limit, "x-overflow": "reject-publish"}
    assert queue_state(row(5, before=5, **refusing), [], 100).advice == "Publishers are refused."


def test_consumers_that_have_all_that_they_may_are_busy() -> None:
    consumer = {"prefetch_count": 2, "messages_unacknowledged": 2}
    waits = row(50, before=50, coming=600, going=600)
    assert queue_state(waits, [consumer], 100).word == "busy"
    free = {**consumer, "messages_unacknowledged": 1}
    assert queue_state(waits, [consumer, free], 100).word == "running"
    endless = {"prefetch_count": 0, "messages_unacknowledged": 2}
    assert queue_state(waits, [endless], 100).word == "running"


def test_what_keeps_up_says_how_fast() -> None:
    assert queue_state(row(coming=600, going=600), [], 100).told == "It keeps up: 1/s in, 1/s out."
    assert queue_state({**row(), "type": "stream"}, [], 100).word == "stream"
