"""Metrics of all processes of a node, which is scraped as one: each tells of its clients, under its number.

There are no sums of them: what a process has counted begins at 0 again when it does, alone.
"""

from collections.abc import AsyncIterator

import msgspec

from routelog.log_backend import Lane, pause
from routelog.management.calls.answer import Answer, Listing
from routelog.management.calls.broker_side import WatchedBroker
from routelog.management.calls.call import Call
from routelog.management.calls.other_nodes import NodeCall
from routelog.management.metrics.client_metrics import Wanted, clients_text
from routelog.management.metrics.watched import WatchedNode

CLIENT_METRICS = "/inner/client-metrics"

_ASKER = "1"  # number of the process that is scraped
_HEAD = "# HELP "


async def client_metrics_here(call: Call) -> Answer:
    """Of the clients of this process: for the one that is scraped."""
    wanted = msgspec.json.decode(call.query["wanted"], type=Wanted)
    texts = [text async for text in clients_text(call.broker.watched, wanted)]
    return Listing(texts, lambda text: text)


async def all_clients_text(
    node: WatchedNode, broker: WatchedBroker, wanted: Wanted
) -> AsyncIterator[str]:
    """What clients of all processes have, and have done; of one that is silent there is nothing."""
    own = clients_text(broker, wanted)
    if not node.processes():
        async for text in own:
            yield text
        return
    others, metric = await _others(node, wanted), ""
    async for text in own:
        lines: list[str] = []
        for line in _lines(text):
            if line.startswith(_HEAD):
                lines += others.pop(metric, ())
                metric = _metric(line)
            lines.append(_of_process(line, _ASKER))
        yield "".join(lines)
    yield "".join(others.pop(metric, ()))


async def _others(node: WatchedNode, wanted: Wanted) -> dict[str, list[str]]:
    """The samples of the other processes, by metric."""
    query = {"wanted": msgspec.json.encode(wanted).decode()}
    call = NodeCall("GET", CLIENT_METRICS, {}, query, {}, "", "", (), True, None)
    found: dict[str, list[str]] = {}
    for process, answer in (await node.ask_nodes(msgspec.msgpack.encode(call))).items():
        if answer is None or answer.has_failed:
            continue
        number, samples = process.rpartition("/")[2], found.setdefault("", [])
        for piece in answer.pieces:
            for text in msgspec.json.decode(piece, type=list[str]):
                for line in _lines(text):
                    if line.startswith(_HEAD):
                        samples = found.setdefault(_metric(line), [])
                    elif not line.startswith("#"):
                        samples.append(_of_process(line, number))
                await pause(Lane.OPERATORS)
    return found


def _lines(text: str) -> list[str]:
    # Not `splitlines`: names may have what ends lines elsewhere.
    return [f"{line}\n" for line in text.split("\n")[:-1]]


def _metric(line: str) -> str:
    return line.split(" ", 3)[2]


def _of_process(line: str, number: str) -> str:
    if line.startswith("#"):
        return line
    name, space, value = line.partition(" ")
    if "{" not in name:
        return f'{name}{{process="{number}"}}{space}{value}'
    name, _, labels = line.partition("{")
    return f'{name}{{process="{number}",{labels}'
