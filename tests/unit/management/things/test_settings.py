"""The settings of a queue: those in force, the defaults, and who can change each."""

from typing import Any

from routelog.management.things.settings import policy_for, settings_of, shown_value


def row(type_: str, *settings: dict[str, Any]) -> dict[str, Any]:
    return {"name": "a.b", "type": type_, "settings": list(settings)}


def said(name: str, value: object, source: str = "argument", policy: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "source": source, "policy": policy}


def test_what_is_in_force_comes_first_and_defaults_behind() -> None:
    rows = settings_of(row("classic", said("x-message-ttl", 3_600_000, "policy", "p")))
    assert (rows[0].shown, rows[0].source, rows[0].policy) == ("1 h", "policy", "p")
    defaults = {each.name: each for each in rows if each.source == "default"}
    assert "x-message-ttl" not in defaults
    assert defaults["x-max-length"].shown == "no limit"
    assert defaults["x-max-length"].key == "max-length"
    assert defaults["x-max-priority"].key == ""  # no policy can set it
    assert "x-max-age" not in defaults


def test_each_kind_of_queue_has_its_own_defaults() -> None:
    quorum = {each.name: each.shown for each in settings_of(row("quorum"))}
    assert quorum["x-delivery-limit"] == "20"
    stream = {each.name for each in settings_of(row("stream"))}
    assert "x-max-age" in stream
    assert not stream & {"x-max-length", "x-message-ttl", "x-overflow"}


def test_an_argument_that_is_not_known_is_shown_as_it_is() -> None:
    (first, *_) = settings_of(row("classic", said("x-sheep", [1])))
    assert (first.label, first.shown) == ("sheep", "[1]")


def test_values_have_their_unit() -> None:
    assert shown_value("octets", 15_000_000) == "15 MB"
    assert shown_value("count", 1_000) == "1,000"
    assert shown_value("text", True) == "yes"


def test_a_policy_of_one_queue_begins_with_the_one_in_force() -> None:
    first = policy_for(row("classic"), None)
    assert first == {
        "name": "a.b",
        "pattern": r"^a\.b$",
        "apply-to": "queues",
        "priority": "0",
    }
    policy = {
        "pattern": ".",
        "apply-to": "all",
        "priority": 4,
        "definition": {"max-length": 5, "max-age": "7D"},
    }
    first = policy_for(row("classic"), policy)
    assert (first["priority"], first["definition.max-length"]) == ("5", "5")
    assert '"max-age": "7D"' in first["definition"]
