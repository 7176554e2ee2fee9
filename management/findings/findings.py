"""The answer to "is anything wrong?": findings by kind, and a sentence."""

from collections.abc import Sequence

import msgspec

from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call
from routelog.management.calls.operation import answers
from routelog.management.figures.numbers import as_span
from routelog.management.findings.client_findings import client_findings
from routelog.management.findings.finding import KINDS, Finding, phrase
from routelog.management.findings.node_findings import disk_days, node_findings
from routelog.management.findings.queue_findings import QueueFindings

PHRASES_MAX = 3  # after the first one
DISK_DAYS_SAID = 365.0
_DAY_SECONDS = 86_400
_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}


class Findings(msgspec.Struct, kw_only=True):
    """What was found, the worst first, in so many queues.

    `verdict` is a sentence, and `more` what else there is to say; `disk_days` is in how many days the disk is
    full at the rate of the last day, or since the start.
    """

    findings: list[Finding]
    queues: int
    verdict: str
    more: str
    disk_days: float | None


@answers(Findings)
async def list_findings(call: Call) -> Answer:
    """What is wrong, or worth a look, in the node and in the vhosts that the caller sees; the worst first."""
    vhosts = call.seen_vhosts()
    found = list(node_findings(call))
    found += await client_findings(call)
    found += await QueueFindings(call).look(vhosts)
    found.sort(key=lambda each: (each.severity != "wrong", _RANKS[each.kind]))
    queues = sum(len(vhost.queues) for vhost in vhosts)
    days = disk_days(call)
    verdict, more = _sentence(found)
    return Value(
        Findings(
            findings=found,
            queues=queues,
            verdict=verdict,
            more=f"{more}{_reassurance(found, queues, days)}",
            disk_days=days,
        )
    )


def _sentence(found: Sequence[Finding]) -> tuple[str, str]:
    if not found:
        return "All is well", ""
    first, *others = (phrase(each) for each in found)
    verdict = first[0].upper() + first[1:]
    said, left = others[:PHRASES_MAX], len(others) - PHRASES_MAX
    if left > 0:
        said.append(f"and {left} more")
    return verdict, f"and {', '.join(said)}. " if said else ""


def _reassurance(found: Sequence[Finding], queues: int, days: float | None) -> str:
    kinds = {each.kind for each in found}
    said = []
    if not found:
        said.append(
            f"{queues:,} queues were looked at" if queues != 1 else "one queue was looked at"
        )
    if not kinds & {"alarm", "blocked", "log"}:
        said.append("nobody is blocked")
    if not kinds & {"quarantine", "log"}:
        said.append("nothing is damaged")
    if "disk" not in kinds and days is not None and days < DISK_DAYS_SAID:
        said.append(f"the disk is full in {as_span(days * _DAY_SECONDS)} at this rate")
    text = ", ".join(said)
    return f"{text[0].upper()}{text[1:]}." if said else ""
