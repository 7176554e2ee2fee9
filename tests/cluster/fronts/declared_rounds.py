"""`python -m cluster.fronts.declared_rounds 100000`: declare on one node, publish at once on another one.

Each round: a queue is declared at one node; behind the answer a message is published by way of another node,
mandatory or not; the third node deletes the queue, which must have had the message.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from cluster.brokers.mirrored_brokers import mirrored_brokers
from pamqp import commands
from simulation.fronts.client import Client, Gone, Refused

CLIENTS = 36  # trios of connections, in parallel
TOLD_SECONDS = 60.0


def main() -> int:
    """Run as many rounds as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int)
    rounds = parser.parse_args().rounds
    # Who runs it for long may have other work beside it.
    patience = {"ROUTELOG_CLUSTER_LEASE_SECONDS": "10", "ROUTELOG_CLUSTER_CONFIRM_SECONDS": "30"}
    with (
        TemporaryDirectory(prefix="rounds-") as folder,
        mirrored_brokers(Path(folder), **patience) as nodes,
    ):
        nodes.until_led(in_sync=3)
        began = time.monotonic()
        left = asyncio.run(run([each.port for each in nodes.brokers.values()], rounds))
        seconds = time.monotonic() - began
    text = f"{left.done:,} of {rounds:,} rounds in {seconds:.0f} s, {left.broken} broken off"
    sys.stdout.write(f"{text}; no message was returned or lost\n")
    return 0


class Rounds:
    """Rounds that are left, and how many there were; those that a lost connection broke off."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.done = self.broken = 0

    def next(self) -> int | None:
        """The number of the next one; None: all have begun."""
        if not self.left:
            return None
        self.left -= 1
        return self.left


async def run(ports: Sequence[int], rounds: int) -> Rounds:
    """Run rounds on three nodes.

    Raises:
        AssertionError: a message was returned, or lost.
    """
    left = Rounds(rounds)
    trios = [*permutations(ports)]
    tasks = [
        asyncio.create_task(_rounds(left, trios[number % len(trios)]))
        for number in range(min(CLIENTS, rounds))
    ]
    telling = asyncio.create_task(_tell(left))
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in (*tasks, telling):
            task.cancel()
    return left


async def _tell(rounds: Rounds) -> None:
    while True:
        await asyncio.sleep(TOLD_SECONDS)
        sys.stdout.write(f"{rounds.done:,} rounds, {rounds.broken} broken off\n")
        sys.stdout.flush()


async def _rounds(rounds: Rounds, ports: Sequence[int]) -> None:
    clients: list[Client] = []
    while rounds.left:
        try:
            clients = [await connected(port) for port in ports]
            while (number := rounds.next()) is not None:
                is_done = await _round(number, *clients)
                rounds.done += is_done
        except (Gone, Refused, OSError):  # a machine with much else to do may change its leader
            rounds.broken += 1
            await asyncio.sleep(1)
        for client in clients:
            client.drop()


async def _round(number: int, maker: Client, user: Client, remover: Client) -> bool:
    """Run one; returns whether all of it was confirmed."""
    name, durable, mandatory = f"q{number}", number % 4 > 0, bool(number % 2)
    declare: Any = commands.Queue.Declare(queue=name, durable=durable)
    await maker.call(declare, commands.Queue.DeclareOk)
    body = name.encode()
    published = user.publish("", name, body, mandatory=mandatory, persistent=durable)
    is_confirmed = await published.outcome
    assert not published.is_returned, f"{name}: returned"
    deleted = await remover.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
    # A queue that is not durable goes with its leader.
    assert deleted.message_count == 1 or not (is_confirmed and durable), f"{name}: lost"
    return bool(is_confirmed)


async def connected(port: int) -> Client:
    """A client of the node at a port, whose publishes are confirmed."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: Client(_wrong), "127.0.0.1", port)
    await client.begin()
    await client.confirms()
    return client


def _wrong(text: str) -> NoReturn:
    raise AssertionError(text)


if __name__ == "__main__":
    sys.exit(main())
