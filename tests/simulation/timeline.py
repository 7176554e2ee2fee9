"""A step of a history in words: what a failing seed prints."""

from dataclasses import fields
from typing import Any

from routelog.log_backend import Mark, ShardBlock
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

SESSION_DIGITS = 4  # enough to tell sessions apart by eye


def told(what: Any) -> str:
    """An action, a record or a word."""
    match what:
        case str() | int() | float() | None:
            return str(what)
        case ShardRecord():
            sync = " ".join(
                f"{each.node}:{_short(each.incarnation)}" for each in sorted(what.members)
            )
            text = f"record {what.revision}: {what.leader or 'nobody'} leads epoch {what.epoch}"
            unclean = f", unclean {what.unclean}" if what.unclean else ""
            return f"{text}, claim {_short(what.claim)}, in sync {sync}{unclean}"
        case Mark(position, epoch, checksum):
            return f"{position}@{epoch}#{checksum:08x}"
        case ShardBlock():
            return f"{told(what.mark)}={_content(bytes(what.payload))}"
        case frozenset():
            return told(tuple(sorted(what)))
        case tuple():
            return "[" + " ".join(told(each) for each in what) + "]"
        case _:
            return " ".join([type(what).__name__, *_fields(what)])


def _fields(what: Any) -> list[str]:
    found = []
    for field in fields(what):
        value = getattr(what, field.name)
        match field.name:
            case "shard" | "node":
                continue
            case "session" | "incarnation":
                found.append(f"{field.name}={_short(value)}")
            case "stamp":
                found.append(f"stamp={value:.3f}")
            case "message" | "record" | "blocks" | "mark" | "common" | "checkpoint":
                found.append(told(value))
            case _:
                found.append(f"{field.name}={told(value)}")
    return found


def _short(number: int) -> str:
    return f"{number % 10**SESSION_DIGITS:0{SESSION_DIGITS}}"


def _content(payload: bytes) -> str:
    return payload.decode() if payload.isalnum() else f"{len(payload)} bytes" if payload else ""
