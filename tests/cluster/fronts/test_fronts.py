"""Nodes that do not lead serve their own clients: by way of the leader, and their connections outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import aio_pika
import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from pamqp import commands
from scenarios.clients.raw_client import RawClient
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS, until

MESSAGES = 1_000
INPUTS = 300


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    """Three brokers whose followers are fronts."""
    with mirrored_brokers(tmp_path_factory.mktemp("fronts")) as nodes:
        nodes.until_led(in_sync=3)
        yield nodes


def followers(nodes: MirroredBrokers) -> list[BrokerProcess]:
    """The brokers that do not lead."""
    leader = nodes.leader()
    return [each for each in nodes.brokers.values() if each is not leader]


def connected(broker: BrokerProcess) -> pika.BlockingConnection:
    """A client of a node."""
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def sessions(broker: BrokerProcess) -> int:
    """How many sessions a node has had with a leader."""
    return broker.log_text().count("a session with node")


def test_a_client_of_a_front_has_what_it_has_at_the_leader(fronts: MirroredBrokers) -> None:
    front, other = followers(fronts)
    with contextlib.closing(connected(front)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("x", "topic", durable=True)
        channel.queue_declare("work", durable=True)
        channel.queue_bind("work", "x", "a.*")
        for n in range(100):
            channel.basic_publish("x", "a.b", str(n), PERSISTENT, mandatory=True)
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("x", "b.b", "nowhere", PERSISTENT, mandatory=True)
        assert channel.queue_declare("work", passive=True).method.message_count == 100
        method, _, body = channel.basic_get("work")
        assert body == b"0"
        channel.basic_nack(method.delivery_tag)
        method, _, body = channel.basic_get("work")
        assert (method.redelivered, body) == (True, b"0")
        channel.basic_ack(method.delivery_tag)
    with contextlib.closing(connected(other)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        taken: list[bytes] = []
        for method, _, body in channel.consume("work", inactivity_timeout=WAIT_SECONDS):
            taken.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(taken) == 99:
                break
        assert taken == [b"%d" % n for n in range(1, 100)]
        channel.cancel()
        assert channel.queue_purge("work").method.message_count == 0
        channel.queue_delete("work")
    with contextlib.closing(connected(fronts.leader())) as connection:
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'work'"):
            channel.queue_declare("work", passive=True)


def test_behind_leave_a_node_serves_nobody_until_it_joins(fronts: MirroredBrokers) -> None:
    front, other = followers(fronts)
    name = next(name for name, each in fronts.brokers.items() if each is front)
    told = "this node has no copy any more"
    with contextlib.closing(connected(other)) as staying:
        channel = staying.channel()
        channel.queue_declare("left", durable=True)
        consuming, publishing = connected(front), connected(front)
        consuming.channel().basic_consume("left", lambda *message: None)
        publishing.channel().confirm_delivery()
        assert fronts.ask("leave", f"{name}@test")[1] == 0, fronts.log_text()
        for connection in (consuming, publishing):
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=told):
                connection.process_data_events(time_limit=WAIT_SECONDS)
        channel.queue_delete("left")
        with pytest.raises(pika.exceptions.AMQPConnectionError) as refused:
            connected(front)
        assert "it has no copy" in repr(refused.value)
        assert fronts.ask("join", f"{name}@test")[1] == 0, fronts.log_text()
        fronts.until_led(in_sync=3)
        connected(front).close()


def test_what_is_answered_at_one_node_is_known_at_all(fronts: MirroredBrokers) -> None:
    nodes = [connected(each) for each in fronts.brokers.values()]
    channels = [each.channel() for each in nodes]
    for channel in channels:
        channel.confirm_delivery()
    for n in range(60):
        maker, user = channels[n % 3], channels[(n + 1) % 3]
        maker.queue_declare(f"q{n}", durable=bool(n % 2))
        user.basic_publish("", f"q{n}", b"at once", mandatory=True)
        channels[(n + 2) % 3].queue_delete(f"q{n}")
    for node in nodes:
        node.close()


def test_no_node_routes_to_exclusive_queues_of_a_connection_that_has_closed(
    fronts: MirroredBrokers,
) -> None:
    nodes = [connected(each) for each in fronts.brokers.values()]
    channels = [each.channel() for each in nodes]
    for channel in channels:
        channel.confirm_delivery()
    for n, broker in enumerate([*fronts.brokers.values()] * 5):
        owner = connected(broker)
        for each in range(n % 7):  # more than are deleted in one turn
            owner.channel().queue_declare(f"beside {n}.{each}", exclusive=True)
        owner.channel().queue_declare(f"owned {n}", exclusive=True)
        owner.close()
        with pytest.raises(pika.exceptions.UnroutableError):
            channels[n // 3 % 3].basic_publish("", f"owned {n}", b"to nobody", mandatory=True)
    for node in nodes:
        node.close()


class Consumer:
    """A client that consumes from a queue, and ends without a basic.cancel."""

    def __init__(self, broker: BrokerProcess, queue: str, **options: bool) -> None:
        self.client = RawClient("127.0.0.1", broker.port).open()
        self.client.open_channel()
        consume = commands.Basic.Consume(queue=queue, **options)
        self.client.call(consume, commands.Basic.ConsumeOk)

    def close(self, what: str) -> None:
        """Close its channel, or connection, and await the answer behind deliveries."""
        if what == "channel":
            self.client.send(commands.Channel.Close(200, "", 0, 0), 1)
        else:
            self.client.send(commands.Connection.Close(200, "", 0, 0))
        answers = commands.Channel.CloseOk, commands.Connection.CloseOk
        while not isinstance(self.client.receive()[1], answers):
            pass


@pytest.mark.parametrize("what", ["channel", "connection"])
def test_no_node_routes_to_a_queue_whose_last_consumer_has_closed(
    fronts: MirroredBrokers, what: str
) -> None:
    nodes = [connected(each) for each in fronts.brokers.values()]
    channels = [each.channel() for each in nodes]
    for channel in channels:
        channel.confirm_delivery()
    for n, broker in enumerate([*fronts.brokers.values()] * 6):
        name, publishing = f"auto {n}", channels[n // 3 % 3]
        publishing.queue_declare(name, auto_delete=True)
        consumer = Consumer(broker, name)
        publishing.basic_publish("", name, b"in", mandatory=True)
        consumer.close(what)
        with pytest.raises(pika.exceptions.UnroutableError):
            publishing.basic_publish("", name, b"to nobody", mandatory=True)
        publishing.queue_declare(name, auto_delete=True)
        publishing.basic_publish("", name, b"to the next one", mandatory=True)
        publishing.queue_delete(name)
        consumer.client.socket.close()
    for node in nodes:
        node.close()


@pytest.mark.parametrize("what", ["channel", "connection"])
def test_what_a_consumer_had_that_has_closed_is_there_at_all_nodes(
    fronts: MirroredBrokers, what: str
) -> None:
    nodes = [connected(each) for each in fronts.brokers.values()]
    channels = [each.channel() for each in nodes]
    channels[0].confirm_delivery()
    channels[0].queue_declare("held")
    channels[0].basic_publish("", "held", b"m", mandatory=True)
    for n, broker in enumerate([*fronts.brokers.values()] * 6):
        getting = channels[n // 3 % 3]
        consumer = Consumer(broker, "held", exclusive=True)
        consumer.client.expect(commands.Basic.Deliver)
        consumer.close(what)
        method, _, _ = getting.basic_get("held")
        assert method is not None
        getting.basic_nack(method.delivery_tag)
        consumer.client.socket.close()
        # And nobody else stands in the way of another exclusive one
        consumer = Consumer(broker, "held", exclusive=True)
        consumer.close(what)
        getting.basic_consume("held", lambda *_: None, exclusive=True, consumer_tag="next")
        getting.basic_cancel("next")
        consumer.client.socket.close()
    channels[0].queue_delete("held")
    for node in nodes:
        node.close()


def test_an_exclusive_queue_is_its_connections_wherever_that_is(fronts: MirroredBrokers) -> None:
    front, other = followers(fronts)
    connection = connected(front)
    channel = connection.channel()
    channel.queue_declare("mine", exclusive=True)
    channel.basic_publish("", "mine", b"hello")
    assert channel.basic_get("mine", auto_ack=True)[2] == b"hello"
    for node in (other, fronts.leader()):
        with contextlib.closing(connected(node)) as stranger:
            channel = stranger.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="RESOURCE_LOCKED"):
                channel.basic_get("mine")
    connection.close()
    with contextlib.closing(connected(other)) as later:
        later.channel().queue_declare("mine", exclusive=True)


@pytest.mark.parametrize("arguments", [{"x-overflow": "reject-publish", "x-max-length": 1}])
def test_a_full_queue_refuses_at_a_front_as_at_the_leader(
    fronts: MirroredBrokers, arguments: dict[str, object]
) -> None:
    front, _ = followers(fronts)
    with contextlib.closing(connected(front)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("full", durable=True, arguments=arguments)
        channel.basic_publish("", "full", b"in", PERSISTENT)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "full", b"out", PERSISTENT)
        channel.queue_delete("full")


def test_a_front_that_was_stopped_knows_what_others_were_answered(fronts: MirroredBrokers) -> None:
    front, _ = followers(fronts)
    nodes = connected(front), connected(front), connected(fronts.leader())
    with ThreadPoolExecutor(2) as threads:
        channel, asking, maker = (node.channel() for node in nodes)
        channel.confirm_delivery()
        front.signal(signal.SIGSTOP)
        try:
            maker.queue_declare("meanwhile", durable=True)  # the front is waited for no longer
            publish = partial(channel.basic_publish, "", "meanwhile", b"", PERSISTENT)
            published = threads.submit(publish, mandatory=True)
            asked = threads.submit(asking.queue_declare, "meanwhile", passive=True)
            time.sleep(0.2)  # most likely they lie in the front's sockets then
        finally:
            front.signal(signal.SIGCONT)
        published.result(WAIT_SECONDS)  # not returned
        asked.result(WAIT_SECONDS)  # not 404
        maker.queue_delete("meanwhile")
    for node in nodes:
        node.close()


def test_a_transaction_by_way_of_a_front_is_whole(fronts: MirroredBrokers) -> None:
    front, _ = followers(fronts)
    with contextlib.closing(connected(front)) as connection:
        channel = connection.channel()
        for name in ("in", "out"):
            channel.queue_declare(name, durable=True)
        channel.basic_publish("", "in", b"input", PERSISTENT)
        channel.tx_select()
        method, _, _ = channel.basic_get("in")
        channel.basic_publish("", "out", b"undone", PERSISTENT)
        channel.basic_ack(method.delivery_tag)
        channel.tx_rollback()
        channel.basic_publish("", "out", b"output", PERSISTENT)
        channel.basic_publish("", "nowhere", b"returned", PERSISTENT, mandatory=True)
        channel.basic_ack(method.delivery_tag)
        returned: list[bytes] = []
        channel.add_on_return_callback(lambda *values: returned.append(values[-1]))
        channel.tx_commit()
        connection.process_data_events()
        assert returned == [b"returned"]
        assert channel.queue_declare("in", passive=True).method.message_count == 0
        assert channel.basic_get("out", auto_ack=True)[2] == b"output"
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        channel.queue_declare("small", durable=True, arguments=full)
        for body in (b"1", b"2"):
            channel.basic_publish("", "small", body, PERSISTENT)
        channel.basic_publish("", "out", b"undone", PERSISTENT)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"406.*'small'.*is full"):
            channel.tx_commit()
        channel = connection.channel()
        for name in ("in", "out", "small"):
            assert channel.queue_declare(name, passive=True).method.message_count == 0
            channel.queue_delete(name)


@pytest.mark.long
async def test_each_input_has_one_output_when_the_leader_dies(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as nodes:
        await asyncio.to_thread(nodes.until_led, in_sync=3)
        (url, other) = [each.url for each in await asyncio.to_thread(followers, nodes)]
        inputs = [str(n) for n in range(INPUTS)]
        connection = await aio_pika.connect(other)
        channel = await connection.channel()
        for name in ("in", "out"):
            await channel.declare_queue(name, durable=True)
        for body in inputs:
            message = aio_pika.Message(body.encode(), delivery_mode=2)
            await channel.default_exchange.publish(message, "in")
        commits = 0

        async def work() -> None:
            # Each input becomes an output in one transaction; what is not known to be done is tried again.
            nonlocal commits
            async with await aio_pika.connect(url) as worker:
                channel = await worker.channel(publisher_confirms=False)
                await channel.set_qos(10)
                queue = await channel.get_queue("in", ensure=False)
                while True:
                    transaction = channel.transaction()
                    await transaction.select()
                    got = await queue.get(fail=False)
                    if got is None:
                        return
                    output = aio_pika.Message(got.body, delivery_mode=2)
                    await channel.default_exchange.publish(output, "out")
                    await got.ack()
                    await transaction.commit()
                    commits += 1

        async def until_done() -> None:
            while True:
                with contextlib.suppress(aio_pika.exceptions.AMQPError, ConnectionError):
                    await work()
                    if await counted("in") == 0:
                        return

        async def counted(name: str) -> int:
            fresh = await connection.channel()
            queue = await fresh.declare_queue(name, durable=True, passive=True)
            await fresh.close()
            return queue.declaration_result.message_count or 0

        workers = [asyncio.create_task(until_done()) for _ in range(3)]
        await until(lambda: commits > INPUTS // 3)
        leader = await asyncio.to_thread(nodes.leader)
        leader.signal(signal.SIGKILL)
        async with asyncio.timeout(4 * WAIT_SECONDS):
            await asyncio.gather(*workers)
        outputs = Counter[str]()
        queue = await channel.get_queue("out", ensure=False)
        while (taken := await queue.get(no_ack=True, fail=False)) is not None:
            outputs[taken.body.decode()] += 1
        assert outputs == Counter(inputs)
        await connection.close()


async def test_connections_of_other_nodes_outlive_the_leader(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as nodes:
        await asyncio.to_thread(nodes.until_led, in_sync=3)
        survivors = await asyncio.to_thread(followers, nodes)
        closed: list[str] = []
        confirmed: set[str] = set()
        taken = Counter[str]()
        connections = [await aio_pika.connect(each.url) for each in survivors]
        for at, connection in enumerate(connections):
            connection.close_callbacks.add(lambda *_, at=at: closed.append(str(at)))
        maker = await connections[0].channel()
        await maker.declare_queue("lasting", durable=True)

        async def publish(connection: aio_pika.abc.AbstractConnection, lane: int) -> None:
            channel = await connection.channel()
            for n in range(MESSAGES):
                body = f"{lane}/{n}"
                while True:
                    try:
                        await channel.default_exchange.publish(
                            aio_pika.Message(body.encode(), delivery_mode=2), "lasting"
                        )
                    except aio_pika.exceptions.DeliveryError:
                        continue
                    break
                confirmed.add(body)

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            taken[message.body.decode()] += 1
            await message.ack()

        for connection in connections:
            channel = await connection.channel()
            await channel.set_qos(50)
            await (await channel.get_queue("lasting", ensure=False)).consume(take)
        lanes = [asyncio.create_task(publish(each, at)) for at, each in enumerate(connections)]
        await until(lambda: len(confirmed) > MESSAGES // 4)
        leader = await asyncio.to_thread(nodes.leader)
        leader.signal(signal.SIGKILL)
        await asyncio.gather(*lanes)
        await until(lambda: confirmed <= taken.keys())
        assert not closed
        assert len(confirmed) == 2 * MESSAGES
        for connection in connections:
            await connection.close()
