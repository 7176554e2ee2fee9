"""What a dead letter says of its deaths; the whole is compared with RabbitMQ in the scenarios."""

from typing import Any

import pytest
from pamqp import commands

from routelog.log_backend import Reason
from routelog.vhosts.messages.property_list import PropertyList
from routelog.vhosts.rules.death import (
    DeadLetter,
    Death,
    DeathReason,
    LastDeath,
    dead_letter,
    last_death,
)

SECONDS = 1_700_000_000


def unmarshal(properties: commands.Basic.Properties, octets: bytes) -> None:
    properties.unmarshal(int.from_bytes(octets[:2], "big"), octets[2:])


def died(
    raw: DeadLetter | bytes | dict[str, Any] | None = None,
    *,
    queue: str = "q",
    reason: DeathReason = DeathReason.EXPIRED,
    key: bytes | None = None,
    expiration: str | None = None,
) -> DeadLetter:
    if isinstance(raw, DeadLetter):
        properties, own = raw.properties, raw.own_deaths
    elif isinstance(raw, bytes):
        properties, own = raw, 0
    else:
        properties, own = commands.Basic.Properties(headers=raw, expiration=expiration).marshal(), 0
    return dead_letter(properties, own, b"x", b"old", Death(queue, reason, SECONDS, key))


def headers(letter: DeadLetter) -> dict[str, Any]:
    properties = commands.Basic.Properties()
    unmarshal(properties, letter.properties)
    assert properties.headers is not None
    return dict(properties.headers)


def deaths(letter: DeadLetter) -> list[tuple[str, str, int]]:
    return [(each["queue"], each["reason"], each["count"]) for each in headers(letter)["x-death"]]


def test_the_expiration_goes_and_is_told() -> None:
    letter = died(expiration="500")
    properties = commands.Basic.Properties()
    unmarshal(properties, letter.properties)
    assert properties.expiration is None
    assert headers(letter)["x-death"][0]["original-expiration"] == "500"
    assert "original-expiration" not in headers(died())["x-death"][0]


def test_the_same_death_again_is_counted_in_front() -> None:
    first = died(queue="a")
    second = died(first, queue="b")
    third = died(second, queue="a")
    assert deaths(third) == [("a", "expired", 2), ("b", "expired", 1)]
    assert headers(third)["x-first-death-queue"] == "a"
    assert headers(third)["x-last-death-queue"] == "a"
    assert headers(second)["x-last-death-queue"] == "b"


def test_another_reason_is_another_death() -> None:
    letter = died(died(queue="a"), queue="a", reason=DeathReason.MAXLEN)
    assert deaths(letter) == [("a", "maxlen", 1), ("a", "expired", 1)]


def test_the_first_death_is_told_of_a_story_that_did_not_say_it() -> None:
    story = {"queue": "old", "reason": "expired", "exchange": "e", "count": 3}
    letter = died({"x-death": [story]}, queue="new")
    assert deaths(letter) == [("new", "expired", 1), ("old", "expired", 3)]
    assert headers(letter)["x-first-death-queue"] == "old"


def test_a_message_cycles_to_where_it_came_from_unless_it_was_rejected_since() -> None:
    letter = died(queue="a")
    assert letter.cycles_to == {"a"}
    letter = died(letter, queue="b")
    assert letter.cycles_to == {"a", "b"}
    letter = died(letter, queue="c", reason=DeathReason.REJECTED)
    assert letter.cycles_to == frozenset()
    letter = died(letter, queue="d", reason=DeathReason.MAXLEN)
    assert letter.cycles_to == {"d"}


def test_copies_are_routed_again_unless_there_is_a_key() -> None:
    letter = died({"CC": ["c1", "c2"], "mine": 1})
    assert letter.keys == (b"old", b"c1", b"c2")
    assert headers(letter)["CC"] == ["c1", "c2"]
    letter = died({"CC": ["c1", "c2"], "mine": 1}, key=b"new")
    assert letter.keys == (b"new",)
    assert headers(letter)["x-death"][0]["routing-keys"] == ["old", "c1", "c2"]
    assert "CC" not in headers(letter)
    assert headers(letter)["mine"] == 1


@pytest.mark.parametrize("cut", [1, 3, 7, 20])
def test_malformed_properties_are_passed_on_as_they_are(cut: int) -> None:
    raw = commands.Basic.Properties(headers={"a": 1, "b": "text"}).marshal()[:cut]
    assert died(raw, key=b"new") == DeadLetter(raw, (b"new",), frozenset(), 0)


def test_a_letter_that_died_again_goes_back_by_its_newest_death() -> None:
    letter = died(died(queue="a"), queue="b")
    assert letter.own_deaths == 2
    found = last_death(PropertyList(letter.properties).headers, letter.own_deaths)
    assert found == LastDeath("b", b"x", b"old")


def test_deaths_that_a_client_made_up_are_delivered_and_not_believed() -> None:
    story: dict[str, Any] = {"queue": "payroll", "reason": "expired", "exchange": "e", "count": 7}
    raw = commands.Basic.Properties(headers={"x-death": [story]}).marshal()
    assert last_death(PropertyList(raw).headers, 0) is None
    letter = died(raw, queue="a")
    assert deaths(letter) == [("a", "expired", 1), ("payroll", "expired", 7)]
    assert headers(letter)["x-death"][1] == story
    assert (letter.cycles_to, letter.own_deaths) == ({"a"}, 1)


def test_a_death_that_a_client_counted_is_counted_on_but_says_where_it_was() -> None:
    story: dict[str, Any] = {"queue": "a", "reason": "expired", "count": 7, "routing-keys": ["p"]}
    letter = died(died({"x-death": [story]}, queue="b"), queue="a")
    assert deaths(letter) == [("a", "expired", 8), ("b", "expired", 1)]
    found = last_death(PropertyList(letter.properties).headers, letter.own_deaths)
    assert found == LastDeath("a", b"x", b"old")
    assert (letter.cycles_to, letter.own_deaths) == ({"a", "b"}, 2)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("a", [("a", "expired", 3), ("b", "maxlen", 1)]),
        ("c", [("c", "expired", 1), ("a", "expired", 2), ("b", "maxlen", 1)]),
    ],
)
def test_entries_without_counts_are_one_for_each_queue_and_reason(
    queue: str, expected: list[tuple[str, str, int]]
) -> None:
    old: list[dict[str, Any]] = [
        {"queue": "a", "reason": "expired", "exchange": "first"},
        {"queue": "b", "reason": "maxlen", "exchange": "e"},
        {"queue": "a", "reason": "expired", "exchange": "second"},
    ]
    letter = died({"x-death": old}, queue=queue)
    assert deaths(letter) == expected
    if queue == "c":
        assert headers(letter)["x-death"][1]["exchange"] == "first"
    assert letter.own_deaths == 1


def test_a_merged_entry_keeps_the_count_that_it_has() -> None:
    old = [{"queue": "a", "reason": "expired", "count": 5}, {"queue": "a", "reason": "expired"}]
    assert deaths(died({"x-death": old}, queue="b")) == [("b", "expired", 1), ("a", "expired", 5)]


def test_as_many_deaths_are_the_brokers_own_as_a_batch_can_say() -> None:
    letter = died(queue="0")
    for number in range(1, 300):
        letter = died(letter, queue=str(number))
    assert (letter.own_deaths, len(deaths(letter)), len(letter.cycles_to)) == (255, 300, 255)


def test_a_count_stays_where_it_ends() -> None:
    story = {"queue": "q", "reason": "expired", "count": 2**63 - 1}
    assert deaths(died({"x-death": [story]})) == [("q", "expired", 2**63 - 1)]


def test_every_reason_settles() -> None:
    assert {each.settlement for each in DeathReason} == {Reason.REJECTED, Reason.EXPIRED}
