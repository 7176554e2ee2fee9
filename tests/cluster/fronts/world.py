"""The clients of one vhost: they carry out steps, and tell when everything has come of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from cluster.fronts.drawn_steps import QUEUES, Step
from cluster.fronts.watched_client import (
    MARKS,
    Consumer,
    Held,
    WatchedChannel,
    WatchedClient,
    marshal,
    publish,
)
from pamqp import commands
from support.waiting import WAIT_SECONDS

QUIET_ROUNDS = 3  # one for each commit that a step may take: a letter may become a letter again
CONFIRM_SECONDS = 30.0
LOOKS = 8  # the channel of who looks whether another one is gone
ALL = 1_000  # a prefetch
CLOSE = commands.Channel.Close(200, "", 0, 0)
METHODS: dict[str, Any] = {
    "declare": commands.Queue.Declare,
    "bind": commands.Queue.Bind,
    "unbind": commands.Queue.Unbind,
    "purge": commands.Queue.Purge,
    "delete": commands.Queue.Delete,
    "declare_exchange": commands.Exchange.Declare,
    "bind_exchange": commands.Exchange.Bind,
    "unbind_exchange": commands.Exchange.Unbind,
    "delete_exchange": commands.Exchange.Delete,
    "recover": lambda: commands.Basic.Recover(True),
    "close": lambda: CLOSE,
}


class World:
    """Clients of one vhost, and what they have done.

    Args:
        ports: of the nodes of the clients.

    Attributes:
        kinds: arguments of the queues that were declared, by name.
    """

    def __init__(self, vhost: str, ports: Sequence[int]) -> None:
        self._ports = ports
        self.clients = [WatchedClient(vhost, f"mark.{n}") for n in range(len(ports))]
        self.kinds: dict[str, dict[str, Any]] = {}
        self._lives = [0] * len(ports)

    async def begin(self) -> None:
        """Connect all."""
        for number in range(len(self.clients)):
            await self._connected(number)

    async def end(self) -> None:
        """Close all."""
        for client in self.clients:
            await client.close()

    async def _connected(self, number: int) -> WatchedClient:
        """A client; its own queue tells how long it lives."""
        client = self.clients[number]
        if not client.is_open:
            await client.connect(self._ports[number])
            self._lives[number] += 1
            life = commands.Queue.Declare(queue=self._life(number), exclusive=True)
            await client.call(MARKS, life)
        return client

    def _life(self, number: int) -> str:
        return f"life.{number}.{self._lives[number]}"

    async def channel(self, step: Step) -> WatchedChannel:
        """The channel of a step; client and channel are opened if they are not."""
        return await (await self._connected(step.client)).open(step.channel)

    def consumers(self) -> list[Consumer]:
        """Of all clients."""
        channels = [each for client in self.clients for each in client.channels.values()]
        return [each for channel in channels for each in channel.consumers.values()]

    # -- what its clients see

    def seen(self) -> dict[str, list[Any]]:
        """What has come since the last `forget`, by client and stream.

        Confirms have no order, nor have deliveries of several partitions.
        """
        found = {}
        for number, client in enumerate(self.clients):
            for stream, events in client.seen.items():
                kind = self.kinds.get(stream.rpartition(" of ")[2], {})
                if stream.endswith("confirms"):
                    events = sorted(events)
                elif "x-partitions" in kind:
                    events = sorted(events, key=_partition_of)
                found[f"{number}.{stream}"] = list(events)
        return found

    def forget(self) -> None:
        """Let go of what has come."""
        for client in self.clients:
            client.seen.clear()

    async def settle(self) -> None:
        """Wait until everybody has what comes of everything that was done."""
        for client in self.clients:
            for channel in client.channels.values():
                await client.confirmed(channel, CONFIRM_SECONDS)
        quiet, before = 0, -1
        while quiet < QUIET_ROUNDS:
            await self.mark()
            count = sum(client.count for client in self.clients)
            quiet = quiet + 1 if count == before else 1
            before = count

    async def mark(self) -> None:
        """Each client publishes, has it, and has its confirm."""
        there = [client for client in self.clients if client.is_open]
        for client in there:
            client.begin_mark()
        for client in there:
            await client.end_mark()

    # -- what they do

    async def carry_out(self, step: Step) -> None:
        """Do a step, and wait for its answer if it has one."""
        channel = await self.channel(step)
        client = self.clients[step.client]
        if step.kind not in METHODS:
            await getattr(self, f"_{step.kind}")(step, client, channel)
            return
        method = METHODS[step.kind](**step.options)
        is_done = await _said(client, channel, method)
        if step.kind == "declare" and is_done and not step.options.get("passive"):
            self.kinds[step.options["queue"]] = step.options["arguments"]

    async def _publish(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        settled = step.options["settled"]
        content = b"" if settled is None else _settled(channel, settled)
        for run in step.options["runs"]:
            properties = commands.Basic.Properties(
                headers=dict(run["headers"]) or None,
                delivery_mode=run["delivery_mode"],
                priority=run["priority"],
                expiration=run["expiration"],
            )
            for n in range(run["first"], run["first"] + run["count"]):
                octets = b"m%d" % n
                if channel.mode == "confirm":
                    channel.published += 1
                    channel.unconfirmed[channel.published] = octets
                method = commands.Basic.Publish(
                    0, run["exchange"], run["key"], run["mandatory"], step.options["immediate"]
                )
                content += publish(step.channel, method, octets, properties)
        client.send(content)

    async def _settle(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        client.send(_settled(channel, step.options))

    async def _consume(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        options = dict(step.options)
        if (prefetch := options.pop("prefetch")) is not None:
            await client.call(step.channel, commands.Basic.Qos(0, prefetch, False))
        if channel.is_open:
            channel.consumers.setdefault(options["consumer_tag"], consumer_of(options))
        await _said(client, channel, commands.Basic.Consume(**options))

    async def _cancel(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        await _said(client, channel, commands.Basic.Cancel(**step.options))
        if step.options["nowait"]:
            await self.settle()  # what is on its way is the consumer's
        channel.consumers.pop(step.options["consumer_tag"], None)

    async def _qos(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        options = step.options
        qos = commands.Basic.Qos(options["size"], options["count"], options["of_all"])
        if await client.call(step.channel, qos) is not None and options["of_all"]:
            channel.prefetch_of_all = options["count"]

    async def _get(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        client.gets_without_acks = step.options["no_ack"]
        await client.call(step.channel, commands.Basic.Get(**step.options))

    async def _confirm(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        if await client.call(step.channel, commands.Confirm.Select()) is not None:
            channel.mode = "confirm"

    async def _tx(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        if await client.call(step.channel, commands.Tx.Select()) is not None:
            channel.mode = "tx"

    async def _commit(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        if await client.call(step.channel, commands.Tx.Commit()) is not None:
            channel.settled.clear()

    async def _rollback(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        if await client.call(step.channel, commands.Tx.Rollback()) is not None:
            channel.held = sorted(channel.held + channel.settled, key=lambda held: held.tag)
            channel.settled.clear()

    async def _leave(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        await client.close()

    async def _drop(self, step: Step, client: WatchedClient, channel: WatchedChannel) -> None:
        """End a connection without a word; its own queue is gone when the broker has noticed."""
        life = commands.Queue.Declare(queue=self._life(step.client), passive=True)
        client.drop()
        other = await self._connected((step.client + 1) % len(self.clients))
        seen = dict(other.seen)
        async with asyncio.timeout(WAIT_SECONDS):
            code = 0
            while code != 404:
                await other.open(LOOKS)
                other.seen.clear()
                await other.call(LOOKS, life)
                _, code, _ = other.seen[f"{LOOKS} answers"][-1]
        other.seen.clear()
        other.seen.update(seen)

    async def drain(self) -> None:
        """Get everything that is left, by clients that have just come."""
        await self.end()
        await self.begin()
        reader = self.clients[0]
        for number, queue in enumerate(QUEUES, 1):
            # What expired behind the messages of the queue before becomes letters.
            await self.settle()
            # Some queues refuse to be got from, or to be read, which ends a connection or a channel: none that
            # has a reader, whose deliveries may come later.
            getter = await self._connected(1)
            getter.gets_without_acks = True
            await getter.open(1)
            declare = commands.Queue.Declare(queue=queue, passive=True)
            if await getter.call(1, declare) is None:
                continue
            get, answer = commands.Basic.Get(queue=queue, no_ack=True), object()
            while answer is not None and not isinstance(answer, commands.Basic.GetEmpty):
                answer = await getter.call(1, get)
            channel = await reader.open(number)
            await reader.call(number, commands.Basic.Qos(0, ALL, False))
            channel.consumers[queue] = Consumer(queue)
            first = {"x-stream-offset": "first"}
            read = commands.Basic.Consume(queue=queue, consumer_tag=queue, arguments=first)
            await reader.call(number, read)
        await self.settle()


async def _said(client: WatchedClient, channel: WatchedChannel, method: Any) -> bool:
    """Whether a method was answered, or needs no answer."""
    if getattr(method, "nowait", False):
        client.send(marshal(channel.number, method))
        return True
    return await client.call(channel.number, method) is not None


def consumer_of(options: dict[str, Any]) -> Consumer:
    """What basic.consume asks for."""
    arguments = options["arguments"]
    group, priority = arguments.get("x-group", ""), arguments.get("x-priority", 0)
    return Consumer(options["queue"], group, priority, options["no_ack"])


def chosen_of(channel: WatchedChannel, how: dict[str, Any]) -> list[Held]:
    """What a settlement is about, in the order of the tags: the last one is what it names."""
    names = channel.names()
    if not names or not channel.is_open:
        return []
    name = names[how["which"] % len(names)]
    last = next(each for each in channel.held if each.name == name)
    return [each for each in channel.held if each.tag <= last.tag] if how["multiple"] else [last]


def _settled(channel: WatchedChannel, how: dict[str, Any]) -> bytes:
    chosen = chosen_of(channel, how)
    if not chosen:
        return b""
    channel.held = [each for each in channel.held if each not in chosen]
    if channel.mode == "tx":
        channel.settled += chosen
    tag, requeue = chosen[-1].tag, how["requeue"]
    methods: dict[str, Any] = {
        "ack": commands.Basic.Ack(tag, how["multiple"]),
        "nack": commands.Basic.Nack(tag, how["multiple"], requeue),
        "reject": commands.Basic.Reject(tag, requeue),
    }
    return marshal(channel.number, methods[how["how"]])


def _partition_of(event: Any) -> tuple[str, ...]:
    """What chooses a partition: deliveries of two have no order."""
    if not isinstance(event, dict):
        return ()
    headers = event["headers"]
    return str(headers.get("x-partition")), str(headers.get("h")), event["key"]
