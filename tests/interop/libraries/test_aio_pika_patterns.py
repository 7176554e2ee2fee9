"""aio-pika's patterns: remote procedure calls, masters and workers, pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractRobustChannel, AbstractRobustConnection
from aio_pika.exceptions import MessageProcessError
from aio_pika.patterns import RPC, JsonMaster, JsonRPC, Master, NackMessage, RejectMessage
from aio_pika.pool import Pool, PoolInvalidStateError
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
async def connection(broker) -> AsyncIterator[AbstractRobustConnection]:
    async with await aio_pika.connect_robust(broker.url, timeout=WAIT_SECONDS) as opened:
        yield opened


@pytest.fixture
async def channel(connection: AbstractRobustConnection) -> AbstractRobustChannel:
    return await connection.channel()


async def multiply(*, x: int, y: int) -> int:
    return x * y


async def fail(*, why: str) -> None:
    raise ValueError(why)


@pytest.mark.parametrize("exchange", ["", "calls"])
async def test_a_remote_procedure_is_called_through_a_queue(connection, name, exchange) -> None:
    exchange = exchange and f"{name}.{exchange}"
    server = await RPC.create(await connection.channel(), exchange=exchange)
    client = await RPC.create(await connection.channel(), exchange=exchange)
    method = f"{name}.multiply"
    await server.register(method, multiply, auto_delete=True)
    assert await client.call(method, {"x": 6, "y": 7}, priority=1) == 42
    assert await getattr(client.proxy, method)(x=2, y=3) == 6
    calls = [client.call(method, {"x": at, "y": 1}) for at in range(50)]
    assert await asyncio.gather(*calls) == list(range(50))
    await server.unregister(multiply)
    for rpc in (server, client):
        await rpc.close()


async def test_an_error_of_a_procedure_and_a_procedure_nobody_has_are_told(
    connection, name
) -> None:
    channels = [await connection.channel() for _ in range(4)]
    server, client = [await RPC.create(channel) for channel in channels[:2]]
    await server.register(name, fail, auto_delete=True)
    with pytest.raises(ValueError, match="no reason"):
        await client.call(name, {"why": "no reason"})
    with pytest.raises(MessageProcessError, match="returned"):
        await client.call(f"{name}.nobody")
    json_server, json_client = [await JsonRPC.create(channel) for channel in channels[2:]]
    await json_server.register(f"{name}.json", fail, auto_delete=True)
    with pytest.raises(aio_pika.patterns.rpc.JsonRPCError) as caught:
        await json_client.call(f"{name}.json", {"why": "in JSON"})
    assert "in JSON" in str(caught.value.args)


async def test_a_call_that_waits_too_long_comes_back_dead_lettered(channel, name) -> None:
    rpc = await RPC.create(channel)
    dead_lettered = {"x-dead-letter-exchange": RPC.DLX_NAME}
    queue = await channel.declare_queue(name, arguments=dead_lettered)  # where nobody answers
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(rpc.call(name, expiration=0.05), WAIT_SECONDS)
    assert await queue.get(fail=False) is None
    await queue.delete()


@pytest.mark.parametrize("kind", [Master, JsonMaster])
async def test_workers_take_tasks_and_settle_them_as_they_say(connection, name, kind) -> None:
    done: asyncio.Queue[Any] = asyncio.Queue()
    tried: list[str] = []

    async def work(*, task: str) -> None:
        tried.append(task)
        if task == "nack" and tried.count(task) < 3:
            raise NackMessage(requeue=True)
        if task == "reject":
            raise RejectMessage(requeue=False)
        if task == "fail" and tried.count(task) < 2:
            raise RuntimeError("requeued by default")
        await done.put(task)

    worker = await kind(await connection.channel()).create_worker(name, work, durable=True)
    master = kind(await connection.channel())
    for task in ("ok", "nack", "reject", "fail"):
        await master.create_task(name, {"task": task})
    await getattr(master.proxy, name)(task="last")
    taken = {await asyncio.wait_for(done.get(), WAIT_SECONDS) for _ in range(4)}
    assert taken == {"ok", "nack", "fail", "last"}
    assert (tried.count("nack"), tried.count("reject"), tried.count("fail")) == (3, 1, 2)
    await worker.close()
    await master.create_task(name, {"task": "left"})
    queue = await (await connection.channel()).declare_queue(name, durable=True)
    assert (await queue.get(no_ack=True)).body == master.serialize({"task": "left"})
    await queue.delete()


async def test_pools_share_connections_and_channels(broker, name) -> None:
    async def connect() -> AbstractRobustConnection:
        return await aio_pika.connect_robust(broker.url)

    connections: Pool[AbstractRobustConnection] = Pool(connect, max_size=2)

    async def open_channel() -> aio_pika.abc.AbstractChannel:
        async with connections.acquire() as connection:
            return await connection.channel()

    channels: Pool[aio_pika.abc.AbstractChannel] = Pool(open_channel, max_size=5)

    async def publish(at: int) -> None:
        async with channels.acquire() as channel:
            await channel.default_exchange.publish(Message(b"%d" % at), name)

    async with connections, channels:
        async with channels.acquire() as channel:
            queue = await channel.declare_queue(name)
        await asyncio.gather(*(publish(at) for at in range(100)))
        bodies = [int((await queue.get(no_ack=True)).body) for _ in range(100)]
        assert sorted(bodies) == list(range(100))
        await queue.delete()
    assert channels.is_closed
    with pytest.raises(PoolInvalidStateError):
        channels.acquire()
