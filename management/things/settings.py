"""The settings of a queue: what each is called, what holds without it, and who may change it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from routelog.management.figures.numbers import as_number, as_octets, as_span
from routelog.management.pages.change_table import POLICY_FIELDS
from routelog.management.pages.rendering import as_json
from routelog.vhosts import QUEUE_KEYS

Unit = Literal["count", "octets", "milliseconds", "text"]


@dataclass(frozen=True, slots=True)
class Known:
    """A setting that queues can have.

    Attributes:
        default: what holds without it.
        of: the kinds of queues that have it.
    """

    label: str
    default: str
    unit: Unit = "text"
    of: str = "classic quorum"


_ALL = "classic quorum stream"

KNOWN: Mapping[str, Known] = {
    "x-max-length": Known("Most messages", "no limit", "count"),
    "x-max-length-bytes": Known("Most bytes", "no limit", "octets", _ALL),
    "x-overflow": Known("When it is full", "drop-head: the oldest go"),
    "x-message-ttl": Known("Messages expire after", "never", "milliseconds"),
    "x-expires": Known("The queue goes, unused for", "never", "milliseconds"),
    "x-dead-letter-exchange": Known("Dead letters go to exchange", "nowhere: they are dropped"),
    "x-dead-letter-routing-key": Known("Dead letters get the key", "they keep theirs"),
    "x-dead-letter-strategy": Known("Dead letters are kept", "at-most-once"),
    "x-delivery-limit": Known("Deliveries after the first", "no limit", "count", "classic"),
    "x-consumer-timeout": Known("Taken back unsettled after", "as configured", "milliseconds"),
    "x-single-active-consumer": Known("One consumer at a time", "no"),
    "x-max-priority": Known("Priorities up to", "none", "count"),
    "x-max-age": Known("Messages stay for", "for ever", of="stream"),
    "x-cleanup-policy": Known("What goes", "delete: whatever is too old or too much", of="stream"),
    "x-retention": Known("Settled messages stay for", "not at all"),
    "x-durability": Known("A confirm means", "as configured", of=_ALL),
    "x-partitions": Known("Partitions", "1", "count", _ALL),
}
_QUORUM_DELIVERIES = Known("Deliveries after the first", "20", "count", "quorum")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as a row of the page.

    Attributes:
        name: of the argument.
        source: "argument", "policy", "operator policy" or "default".
        policy: its name, if one says so.
        key: of a policy that can set it; empty: none can.
    """

    name: str
    label: str
    shown: str
    source: str
    policy: str
    key: str


def settings_of(row: Mapping[str, Any]) -> list[Setting]:
    """All settings of a queue, those in force first."""
    said = {each["name"]: each for each in row["settings"]}
    rows: list[Setting] = []
    for name, each in said.items():
        shown = described(name, each["value"])
        rows.append(Setting(name, *shown, each["source"], each["policy"], _key(name)))
    unsaid = {**KNOWN}
    if row["type"] == "quorum":
        unsaid["x-delivery-limit"] = _QUORUM_DELIVERIES
    for name, known in unsaid.items():
        if name not in said and row["type"] in known.of:
            rows.append(Setting(name, known.label, known.default, "default", "", _key(name)))
    return rows


def described(name: str, value: object) -> tuple[str, str]:
    """What a setting is called, and its value with its unit."""
    known = KNOWN.get(name, Known(name.removeprefix("x-"), ""))
    return known.label, shown_value(known.unit, value)


def shown_value(unit: Unit, value: object) -> str:
    """A value with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if unit == "octets":
            return as_octets(value)
        return as_span(value / 1_000) if unit == "milliseconds" else as_number(value)
    return str(value)


def _key(name: str) -> str:
    key = name.removeprefix("x-")
    return key if key in QUEUE_KEYS else ""


def policy_for(row: Mapping[str, Any], policy: Mapping[str, Any] | None) -> dict[str, str]:
    """What stands first in a form for a policy of this queue alone.

    Args:
        policy: in force; another one replaces it as a whole, so the form begins with what it says.
    """
    first = {
        "name": row["name"],
        "pattern": f"^{re.escape(row['name'])}$",
        "apply-to": "queues",
        "priority": str(policy["priority"] + 1 if policy else 0),
    }
    return {**(policy_fields(policy) if policy else {}), **first}


def policy_fields(policy: Mapping[str, Any]) -> dict[str, str]:
    """A policy as the fields of its form."""
    first = {name: str(policy[name]) for name in ("pattern", "apply-to", "priority")}
    fields = {each.name for each in POLICY_FIELDS}
    further: dict[str, object] = {}
    for key, value in policy["definition"].items():
        if (name := f"definition.{key}") in fields:
            first[name] = str(value)
        else:
            further[key] = value
    return first | ({"definition": as_json(further)} if further else {})
