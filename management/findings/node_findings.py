"""What is wrong with the node, its disk, its certificates, and the nodes beside it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import UNSET, UnsetType

from routelog.management.calls.call import Call
from routelog.management.calls.caller import Need
from routelog.management.figures.numbers import as_octets, as_span
from routelog.management.findings.finding import Finding, Named, finding
from routelog.management.sampling.sampler import DISK_FREE
from routelog.mirror_cluster import ReplicaState

CERTIFICATE_DAYS = 30
DAY_SECONDS = 86_400
DISK_DAYS_LOOK = 7.0
DISK_DAYS_WRONG = 1.0
TREND_SECONDS_MIN = 600.0  # of samples of the disk: less says nothing of days


def node_findings(call: Call) -> Iterator[Finding]:
    """All of these kinds."""
    yield from _log(call)
    yield from _alarms(call)
    yield from _certificates(call)
    yield from _replicas(call)
    yield from _disk(call)
    yield from _remote(call)
    if call.caller.has(Need.MONITORING):
        yield from _standbys(call)


def _log(call: Call) -> Iterator[Finding]:
    if failure := call.broker.log_failure():
        text = f"has failed: {failure}. Nothing is stored until the broker is started again"
        named = Named(type="node", name="The log", text=text, since=_alarm_set(call))
        yield finding("log", [named], severity="wrong", summary="")


def _alarms(call: Call) -> Iterator[Finding]:
    if alarms := call.broker.alarms():
        text = f"wait: {', '.join(alarms)}"
        named = Named(type="node", name="Publishers", text=text, since=_alarm_set(call))
        yield finding("alarm", [named], severity="wrong", summary="")


def _alarm_set(call: Call) -> float | UnsetType:
    """When the last alarm was set, in seconds since 1970, as far as the last lines of the log tell."""
    lines = reversed(call.broker.log_lines())
    found = (line["number"] / 1_000 for line in lines if line.get("event") == "alarm.set")
    return next(found, UNSET)


def _certificates(call: Call) -> Iterator[Finding]:
    now = datetime.fromtimestamp(call.broker.clock.now() / 1_000_000, UTC)
    ending = [
        (expiry, protocol, file)
        for protocol, expiries in call.broker.expiries().items()
        for file, expiry in expiries.items()
        if expiry - now < timedelta(days=CERTIFICATE_DAYS)
    ]
    if not ending:
        return
    named = []
    for expiry, protocol, file in sorted(ending):
        left = expiry - now
        verb, when = ("expired", "ago") if left <= timedelta(0) else ("expires in", "")
        text = f"of {protocol} {verb} {as_span(abs(left.total_seconds()))} {when}".rstrip()
        named.append(Named(type="certificate", name=str(file), text=f"{text}: {expiry:%Y-%m-%d}"))
    is_over = min(ending)[0] <= now
    yield finding(
        "certificate",
        named,
        severity="wrong" if is_over else "look",
        summary=f"{len(named)} certificates end",
    )


def _replicas(call: Call) -> Iterator[Finding]:
    named = [
        Named(type="replica", name=replica.name, text=wrong)
        for replica in call.broker.cluster.replicas()
        if (wrong := _wrong_with(replica))
    ]
    if named:
        summary = f"{len(named)} nodes are not in sync"
        yield finding("replica", named, severity="wrong", summary=summary)


def _wrong_with(replica: ReplicaState) -> str:
    if replica.is_damaged:
        return "has damaged queues: it takes a copy of a node that is whole"
    if not replica.is_running:
        return "does not run"
    return "" if replica.is_in_sync else "does not have all that was confirmed"


def _remote(call: Call) -> Iterator[Finding]:
    if failure := call.broker.remote_failure():
        text = f"is not used at present; readers of what is there alone wait: {failure}"
        yield finding(
            "remote storage",
            [Named(type="bucket", name="Remote storage", text=text)],
            severity="wrong",
            summary="",
        )


def _standbys(call: Call) -> Iterator[Finding]:
    named = [
        Named(type="standby", name=str(each["name"]), text="is not connected")
        for each in call.broker.cluster.standbys()
        if not each["is_connected"]
    ]
    if named:
        yield finding("standby", named, summary=f"{len(named)} standbys are not connected")


def disk_days(call: Call) -> float | None:
    """In how many days publishers wait for the disk, at the rate of the samples; None: it does not fill."""
    history = call.sampler.history(DISK_FREE)
    now = call.sampler.since
    if history is None or now - history.first_time < TREND_SECONDS_MIN:
        return None
    first = max(history.first_time, now - DAY_SECONDS)
    free = history.at(now, [0])
    by_second = (history.at(first, [0]) - free) / (now - first)
    left = free - call.broker.space.reserve.size
    return max(0.0, left / by_second / DAY_SECONDS) if by_second > 0 else None


def _disk(call: Call) -> Iterator[Finding]:
    days, history = disk_days(call), call.sampler.history(DISK_FREE)
    if days is None or history is None or days > DISK_DAYS_LOOK:
        return
    free = as_octets(history.last[0])
    text = f"is full in {as_span(days * DAY_SECONDS)} at this rate: {free} are free"
    named = Named(type="disk", name="The disk", text=text)
    yield finding(
        "disk", [named], severity="wrong" if days < DISK_DAYS_WRONG else "look", summary=""
    )
