"""One history of steps, carried out with all clients at one node and with each of them at another one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from cluster.brokers.mirrored_brokers import MirroredBrokers
from cluster.fronts.drawn_steps import CLIENTS, MANY, Step
from cluster.fronts.watched_client import WatchedChannel
from cluster.fronts.world import World, chosen_of, consumer_of
from support.management_door import ManagementDoor

LATE_SECONDS = 30.0  # of a machine that is busy with other things


@dataclass(frozen=True)
class Difference:
    """Where two runs of the same steps are not the same.

    Attributes:
        step: its number; behind the last one: when all are done.
    """

    step: int
    said: str


class History:
    """Two worlds, and what happens in both.

    Args:
        worlds: the one that counts as right comes first.
        late_seconds: until what is not the same is a difference.

    Attributes:
        done: how many steps of each kind.
        late: what was the same a moment later only.
    """

    def __init__(self, worlds: tuple[World, World], late_seconds: float) -> None:
        self._worlds = worlds
        self._late_seconds = late_seconds
        self.done: Counter[str] = Counter()
        self.late: list[str] = []

    async def run(self, steps: Sequence[Step]) -> Difference | None:
        """Do all of it, or as much as is the same."""
        for world in self._worlds:
            await world.begin()
        for number, step in enumerate(steps):
            if not self._can(step):
                continue
            await self._carry_out(step)
            is_last = number == len(steps) - 1
            if not is_last and step.hurries and self._may_hurry(step):
                continue
            if (said := await self._compared()) is not None:
                return Difference(number, said)
        for world in self._worlds:
            await world.drain()
        said = await self._compared()
        for world in self._worlds:
            await world.end()
        return None if said is None else Difference(len(steps), f"what is left: {said}")

    async def _carry_out(self, step: Step) -> None:
        self.done[step.kind] += 1
        if step.kind == "publish" and self._takes():
            # Whether that is before or behind the next run of the same write, nobody promises.
            step = replace(step, options={**step.options, "runs": step.options["runs"][:1]})
        if step.kind == "settle":
            step = replace(step, options=await self._promised(step, step.options))
        elif step.kind == "publish" and step.options["settled"] is not None:
            self.done["publish behind a settlement"] += 1
            settled = await self._promised(step, step.options["settled"])
            step = replace(step, options={**step.options, "settled": settled})
        await asyncio.gather(*(world.carry_out(step) for world in self._worlds))

    def _takes(self) -> bool:
        """Whether something takes messages out of queues by itself: consumers, or dead letters."""
        return bool(self._worlds[0].consumers()) or self._has_letters()

    def _has_letters(self) -> bool:
        kinds = self._worlds[0].kinds.values()
        return any("x-dead-letter-exchange" in kind for kind in kinds)

    async def _promised(self, step: Step, how: dict[str, Any]) -> dict[str, Any]:
        """A settlement of the same in both: consumers of a channel have the tags that they get."""
        if not how["multiple"]:
            return how
        channels = [await world.channel(step) for world in self._worlds]
        one, other = (sorted(each.name for each in chosen_of(it, how)) for it in channels)
        return {**how, "multiple": how["how"] != "reject" and one == other}

    def _can(self, step: Step) -> bool:
        """Whether the outcome of a step is promised, and the step leads anywhere."""
        world = self._worlds[0]
        channel = world.clients[step.client].channels.get(step.channel, WatchedChannel(0))
        if not step.dares and self._is_refused(step, channel):
            return False
        if step.kind == "qos" and step.options["of_all"]:
            queues = [each.queue for each in channel.consumers.values()]
            return len(queues) < 2 and not any("x-partitions" in self._kind(it) for it in queues)
        return step.kind != "consume" or self._is_alone(step, channel)

    def _is_alone(self, step: Step, channel: WatchedChannel) -> bool:
        """Whether nobody promises another consumer what this one gets."""
        wanted = consumer_of(step.options)
        kind = self._kind(wanted.queue)
        if "x-partitions" in kind and (
            0 < (step.options["prefetch"] or 0) < MANY or channel.prefetch_of_all
        ):
            return False  # any partition may be the next one
        if channel.prefetch_of_all and channel.consumers:
            return False
        is_single = "x-single-active-consumer" in kind
        if (is_single or kind.get("x-queue-type") == "stream") and not wanted.group:
            return True
        rivals = (wanted.queue, wanted.group, wanted.priority)
        consumers = self._worlds[0].consumers()
        return all((each.queue, each.group, each.priority) != rivals for each in consumers)

    def _is_refused(self, step: Step, channel: WatchedChannel) -> bool:
        """Whether it is sure to be, which ends a channel or a connection."""
        options = step.options
        if step.kind in ("commit", "rollback"):
            return channel.mode != "tx"
        if step.kind in ("tx", "confirm"):
            return bool(channel.mode)
        if "queue" not in options or step.kind == "declare":
            return False
        kind = self._worlds[0].kinds.get(options["queue"])
        if kind is None:
            return True
        is_stream = kind.get("x-queue-type") == "stream"
        if step.kind == "get":
            return is_stream or "x-single-active-consumer" in kind
        if step.kind == "purge":
            return is_stream
        if step.kind != "consume":
            return False
        needs_credit = is_stream and (options["no_ack"] or not options["prefetch"])
        has_log = is_stream or "x-retention" in kind
        wants_log = {"x-group", "x-stream-offset"} & {*options["arguments"]}
        is_twice = options["consumer_tag"] in channel.consumers
        return bool(is_twice or needs_credit or (wants_log and not has_log))

    def _kind(self, queue: str) -> dict[str, Any]:
        return self._worlds[0].kinds.get(queue, {})

    def _may_hurry(self, step: Step) -> bool:
        """Whether what comes of it is there when it is answered."""
        if step.kind in ("settle", "publish", "drop", "get", "commit", "rollback", "recover"):
            return False
        world = self._worlds[0]
        client = world.clients[step.client]
        if not client.is_open and step.kind != "leave":
            return False  # refused: its own queues go when the broker has said so
        if self._has_letters() and not client.channels[step.channel].is_open:
            return False  # what it held may become letters
        return not step.options.get("nowait") and not world.consumers()

    async def _compared(self) -> str | None:
        """How the worlds are not the same; None: they are."""
        await asyncio.gather(*(world.settle() for world in self._worlds))
        first = ""
        end = time.monotonic() + self._late_seconds
        while not first or time.monotonic() < end:
            one, other = [world.seen() for world in self._worlds]
            if one == other:
                for world in self._worlds:
                    world.forget()
                self.late += [first] if first else []
                return None
            first = first or "\n".join(_differences(one, other))
            await asyncio.gather(*(world.mark() for world in self._worlds))
        return "\n".join(_differences(one, other))


def _differences(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> Iterator[str]:
    """What is not the same, from the first difference of each stream on."""
    for stream in sorted({*one, *other}):
        here, there = one.get(stream, []), other.get(stream, [])
        pairs = zip_longest(here, there)
        first = next((n for n, (left, right) in enumerate(pairs) if left != right), None)
        if first is not None:
            yield f"{stream}, from {first}\n  {here[first:]}\n  {there[first:]}"


class Nodes:
    """Nodes of a cluster, where histories are carried out.

    Args:
        leader, fronts: ports of clients.
        elsewhere: how clients of all nodes do what they do.
    """

    def __init__(
        self,
        door: ManagementDoor,
        leader: int,
        fronts: Sequence[int],
        elsewhere: type[World] = World,
    ) -> None:
        self._door = door
        self._elsewhere = elsewhere
        self._at_leader = (leader,) * CLIENTS
        self._at_all = (*fronts, leader)
        self._runs = 0

    async def run(
        self, steps: Sequence[Step], late_seconds: float = LATE_SECONDS
    ) -> tuple[Difference | None, History]:
        """Carry the steps out in two vhosts, which are gone afterwards."""
        self._runs += 1
        one, other = f"l{self._runs}", f"f{self._runs}"
        for vhost in (one, other):
            await asyncio.to_thread(self._make, vhost)
        worlds = World(one, self._at_leader), self._elsewhere(other, self._at_all)
        history = History(worlds, late_seconds)
        try:
            return await history.run(steps), history
        finally:
            for world in worlds:
                for client in world.clients:
                    client.drop()
            for vhost in (one, other):
                await asyncio.to_thread(self._door.do, "DELETE", "vhosts", vhost)

    def _make(self, vhost: str) -> None:
        self._door.do("PUT", "vhosts", vhost)
        allowed = {"configure": ".*", "write": ".*", "read": ".*"}
        self._door.do("PUT", "permissions", vhost, "guest", body=allowed)

    async def shrunk(
        self, steps: Sequence[Step], tries: int = 2, late_seconds: float = 0.5
    ) -> list[Step]:
        """Fewer and simpler steps that still differ.

        Args:
            tries: how often the same may be equal before it counts as such.
        """
        left = list(steps)
        for _ in range(tries):
            difference, _ = await self.run(left)
            if difference is not None:
                left = left[: difference.step + 1]
                break
        size = max(1, len(left) // 2)
        while size:
            start = 0
            while start < len(left):
                fewer = left[:start] + left[start + size :]
                if await self._differs(fewer, tries, late_seconds):
                    left = fewer
                else:
                    start += size
            size //= 2
        for number in reversed(range(len(left))):
            for simple in _simpler(left[number]):
                changed = [*left[:number], simple, *left[number + 1 :]]
                if await self._differs(changed, tries, late_seconds):
                    left = changed
        return left

    async def _differs(self, steps: Sequence[Step], tries: int, late_seconds: float) -> bool:
        for _ in range(tries):
            if (await self.run(steps, late_seconds))[0] is not None:
                return True
        return False


def _simpler(step: Step) -> Iterator[Step]:
    """A step without one thing or another."""
    options = step.options
    if step.hurries:
        yield replace(step, hurries=False)
    if step.channel != 1:
        yield replace(step, channel=1)
    if options.get("arguments") and step.kind != "declare":
        yield replace(step, options={**options, "arguments": {}})
    if step.kind != "publish":
        return
    if options["settled"] is not None:
        yield replace(step, options={**options, "settled": None})
    for run in options["runs"]:
        if len(options["runs"]) > 1:
            yield replace(step, options={**options, "runs": [run]})
    plain: dict[str, Any] = {
        "headers": {},
        "priority": None,
        "expiration": None,
        "mandatory": False,
    }
    yield replace(step, options={**options, "runs": [{**it, **plain} for it in options["runs"]]})
    yield replace(step, options={**options, "runs": [{**it, "count": 1} for it in options["runs"]]})


def nodes_of(brokers: MirroredBrokers, elsewhere: type[World] = World) -> Nodes:
    """Nodes that run; see `Nodes`."""
    leader = brokers.leader()
    fronts = [each.port for each in brokers.brokers.values() if each is not leader]
    return Nodes(ManagementDoor(leader), leader.port, fronts, elsewhere)


def told(steps: Sequence[Step], difference: Difference) -> str:
    """A history for who reads it."""
    lines = [f"{number:3} {step}" for number, step in enumerate(steps)]
    return "\n".join([*lines, f"at {difference.step}: {difference.said}"])
