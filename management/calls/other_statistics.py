"""Statistics of what clients of other nodes publish and get, to be added to those of this node."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Listing, Row
from routelog.management.calls.call import Call
from routelog.management.calls.other_nodes import other_nodes
from routelog.vhosts import VirtualHost

VHOST_STATISTICS = "/inner/vhost-statistics"
EXCHANGE_STATISTICS = "/inner/exchange-statistics"
EXCHANGE_STATISTICS_OF_VHOST = "/inner/exchange-statistics/{vhost}"


class _Counted(msgspec.Struct):
    # Of a vhost, or of an exchange in it.
    vhost: str
    exchange: str
    message_stats: dict[str, Any]


def vhost_statistics_here(call: Call) -> Answer:
    """Of the channels in each vhost, at this node: for the one that leads."""
    statistics = call.statistics()
    vhosts = [each for each in call.broker.vhosts.all() if call.caller.knows(each.name)]

    def described(vhost: VirtualHost) -> _Counted | None:
        counts = statistics.messages(vhost.counters.channels)
        return _Counted(vhost.name, "", counts["message_stats"]) if counts else None

    return Listing(vhosts, described)


async def exchange_statistics_here(call: Call) -> Answer:
    """Of the exchanges of a vhost, or of all: for the node that leads."""
    statistics = call.statistics()
    vhosts = [call.vhost] if call.has_vhost else call.seen_vhosts()
    rows = []
    async for vhost, name in in_turns(_exchanges(vhosts), Lane.OPERATORS):
        counts = statistics.messages(vhost.counters.exchanges[name])
        if counts:
            rows.append(_Counted(vhost.name, name, counts["message_stats"]))
    return Listing(rows, lambda row: row)


def _exchanges(vhosts: Iterable[VirtualHost]) -> Iterator[tuple[VirtualHost, str]]:
    for vhost in vhosts:
        for name in list(vhost.counters.exchanges):
            yield vhost, name


async def other_vhosts(call: Call) -> dict[str, Row]:
    """The statistics of each vhost at other nodes, as `Statistics.messages` gives them here."""
    found: dict[str, Row] = {}
    for row in await (await other_nodes(call, VHOST_STATISTICS)).rows(_Counted):
        counts = {"message_stats": row.message_stats}
        found[row.vhost] = added(found.get(row.vhost, {}), counts)
    return found


async def other_exchanges(call: Call) -> dict[tuple[str, str], Row]:
    """The statistics of exchanges at other nodes, by vhost and name."""
    path = EXCHANGE_STATISTICS_OF_VHOST if call.has_vhost else EXCHANGE_STATISTICS
    found: dict[tuple[str, str], Row] = {}
    for row in await (await other_nodes(call, path)).rows(_Counted):
        key, counts = (row.vhost, row.exchange), {"message_stats": row.message_stats}
        found[key] = added(found.get(key, {}), counts)
    return found


def added(one: Row, other: Row) -> Row:
    """The sums of what both say; samples are of the same times."""
    sums = dict(one)
    for key, value in other.items():
        known = sums.get(key)
        if known is None:
            sums[key] = value
        elif isinstance(value, Mapping):
            sums[key] = added(known, dict(value))
        elif isinstance(value, list):
            sums[key] = [
                {**mine, "sample": mine["sample"] + theirs["sample"]}
                for mine, theirs in zip(known, value, strict=False)
            ]
        else:
            sums[key] = known + value
    return sums
