"""A finding speaks of one thing, or of several together."""

import pytest

from routelog.management.findings.finding import KINDS, NAMED_MAX, Named, finding, phrase


def named(count: int, since: float = 5.0) -> list[Named]:
    return [
        Named(type="queue", name=f"q{at}", text="is full", since=since + at) for at in range(count)
    ]


def test_one_speaks_for_itself() -> None:
    one = finding("backlog", named(1), messages=7, summary="1 queue")
    assert (one.text, one.summary, one.count, one.title) == ("q0 is full", "", 1, "Backlog")
    assert (one.severity, one.messages, one.since) == ("look", 7, 5.0)


def test_several_are_summed_up_and_the_worst_are_named() -> None:
    many = finding("backlog", named(NAMED_MAX), count=200, messages=900, summary="200 queues")
    assert many.text == "200 queues, first of all q0 is full"
    assert (many.count, len(many.named), many.since) == (200, NAMED_MAX, 5.0)


@pytest.mark.parametrize(
    ("kind", "count", "messages", "said"),
    [
        ("backlog", 1, 55_191, "one queue falls behind"),
        ("backlog", 2, 60_000, "two queues fall behind"),
        ("no consumer", 1_211, 3_000, "1,211 queues have no consumer"),
        ("dead letters", 1, 300, "300 dead letters wait"),
        ("alarm", 1, 0, "publishers wait"),
    ],
)
def test_a_sentence_counts_objects_or_messages(
    kind: str, count: int, messages: int, said: str
) -> None:
    assert phrase(finding(kind, named(1), count=count, messages=messages, summary="x")) == said


def test_every_kind_can_be_said() -> None:
    for name in KINDS:
        assert phrase(finding(name, named(3), messages=3, summary="x"))
