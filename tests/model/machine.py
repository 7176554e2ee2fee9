"""Random clients of a real broker, held against the model after every step."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Set
from typing import Any, ClassVar

import pika
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from model.queue_model import (
    ChannelModel,
    ConsumerModel,
    Delivery,
    Message,
    ModelViolated,
    QueueModel,
)
from model.steps import ARGUMENTS, LEFT_OUT, STEPS
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, NackError
from support.broker_process import BrokerProcess
from support.pika_client import cut, forget
from support.waiting import WAIT_SECONDS

STEPS_TOLD = 10_000
CHOICE_MAX = 99_999  # far above how many there are to choose from
PERSISTENT = pika.BasicProperties(delivery_mode=2)
KINDS: tuple[Any, ...] = (
    (None, False, {}),
    (3, False, {"x-max-length": 3}),
    (3, True, {"x-max-length": 3, "x-overflow": "reject-publish"}),
)


class Client:
    """A connection with channels, and what the model says of each."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection
        self.channels: list[tuple[BlockingChannel, ChannelModel]] = []

    def round_trips(self) -> None:
        """Wait until the broker has answered everything that was sent on any channel."""
        answers: list[object] = []
        for channel, _ in self.channels:
            channel._impl.basic_qos(callback=answers.append)
        self.connection._flush_output(lambda: len(answers) == len(self.channels))


class QueueMachine(RuleBasedStateMachine):
    """Queues, consumers and settlement.

    Attributes:
        broker: that all runs share.
        steps: carried out by all runs, by kind.
        idle: connections that a run left for the next one.
    """

    broker: ClassVar[BrokerProcess]
    steps: ClassVar[Counter[str]] = Counter()
    idle: ClassVar[list[BlockingConnection]] = []
    names: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[QueueModel] = []
        self.clients: list[Client] = []
        self.violation: ModelViolated | None = None
        self.published = 0

    @initialize(left_out=LEFT_OUT)
    def connect(self, left_out: Set[str]) -> None:
        """An operator, and two clients; a run before may have failed in the middle of a restart."""
        if not self.broker.alive:
            self.broker.start()
            self.idle.clear()
        self.left_out = left_out
        self._connect()

    def _connect(self) -> None:
        self.operator, *self.clients = [Client(self._connection()) for _ in range(3)]
        self.control = self.operator.connection.channel()
        self.control.confirm_delivery()

    def _connection(self) -> BlockingConnection:
        if self.idle:
            return self.idle.pop()
        return pika.BlockingConnection(pika.URLParameters(self.broker.url))

    def teardown(self) -> None:
        """Leave nothing to the next run but connections without channels."""
        for queue in self.queues:
            self.control.queue_delete(queue.name)
        for channel in [self.control, *(channel for channel, _ in self.channels())]:
            channel.close()
        self.idle.extend(client.connection for client in [*self.clients, self.operator])

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One of those that are possible."""
        names = [
            name
            for name, step in STEPS.items()
            if name not in self.left_out and step.possible(self)
            for _ in range(step.weight)
        ]
        name = names[data.draw(st.integers(0, CHOICE_MAX)) % len(names)]
        arguments = data.draw(st.fixed_dictionaries(ARGUMENTS))
        self.take(name, **{each: arguments[each] for each in STEPS[name].arguments})

    def take(self, name: str, **arguments: Any) -> None:
        """Carry out a step, and hold the broker against the model."""
        getattr(self, name)(**arguments)
        self._settled_down()
        before = self.steps.total()
        self.steps[name] += arguments.get("count", 1)  # each message is one
        if before // STEPS_TOLD != self.steps.total() // STEPS_TOLD:
            sys.stderr.write(f"{self.steps.total()} steps as the model says\n")

    # -- what there is

    def channels(self) -> list[tuple[BlockingChannel, ChannelModel]]:
        """All that are open."""
        return [each for client in self.clients for each in client.channels]

    def consumers(self) -> list[ConsumerModel]:
        """Of all channels."""
        return [each for _, model in self.channels() for each in model.consumers.values()]

    def holding(self) -> list[tuple[BlockingChannel, ChannelModel]]:
        """Channels that have something to settle."""
        return [each for each in self.channels() if each[1].unsettled]

    # -- queues

    def declare(self, pick: int) -> None:
        """A new queue."""
        length_max, refuses, arguments = KINDS[pick % len(KINDS)]
        QueueMachine.names += 1
        name = f"model-{QueueMachine.names}"
        self.control.queue_declare(name, durable=True, arguments=arguments)
        self.queues.append(QueueModel(name, length_max, refuses))

    def count(self, pick: int) -> None:
        """What a queue says of itself."""
        queue = self.queues[pick % len(self.queues)]
        answer = self.control.queue_declare(queue.name, passive=True).method
        counted = (answer.message_count, answer.consumer_count)
        expected = (len(queue.ready), len(queue.consumers))
        assert counted == expected, f"{queue.name} has {counted}, not {expected}"

    def delete(self, pick: int) -> None:
        """Consumers are told, and what was handed out comes back nowhere."""
        queue = self.queues.pop(pick % len(self.queues))
        count = self.control.queue_delete(queue.name).method.message_count
        assert count == len(queue.ready)
        queue.deleted = True
        for consumer in queue.consumers:
            del consumer.channel.consumers[consumer.tag]

    def purge(self, pick: int) -> None:
        """What is ready goes; what is handed out stays."""
        queue = self.queues[pick % len(self.queues)]
        assert self.control.queue_purge(queue.name).method.message_count == len(queue.ready)
        queue.ready.clear()

    def publish(self, pick: int, count: int) -> None:
        """Persistent messages, each confirmed or refused."""
        queue = self.queues[pick % len(self.queues)]
        for at in range(count):
            if at:
                self._settled_down()
            self.published += 1
            takes = queue.takes()
            try:
                self.control.basic_publish("", queue.name, b"%d" % self.published, PERSISTENT)
            except NackError:
                assert not takes, f"{queue.name} refused a message with {len(queue.ready)} ready"
            else:
                assert takes, f"{queue.name} took a message with {len(queue.ready)} ready"
                queue.ready.append(Message(self.published))

    # -- channels and consumers

    def open_channel(self, pick: int) -> None:
        """A channel on one of the connections."""
        client = self.clients[pick % len(self.clients)]
        client.channels.append((client.connection.channel(), ChannelModel()))

    def close_channel(self, pick: int, fault: bool) -> None:
        """In order, or by acknowledging what was never delivered: everything goes back."""
        channel, model = self._pick_channel(pick)
        if fault:
            with pytest.raises(ChannelClosedByBroker, match="unknown delivery tag"):
                self._ack_unknown(channel, model)
        else:
            channel.close()
        self._forget(channel)
        model.close()

    def consume(self, pick: int, which: int, prefetch: int, no_ack: bool) -> None:
        """A consumer that begins with what is ready."""
        channel, model = self._pick_channel(pick)
        queue = self.queues[which % len(self.queues)]
        channel.basic_qos(prefetch_count=prefetch)
        received = self._receiver(model)
        tag = channel.basic_consume(queue.name, received, auto_ack=no_ack)
        consumer = ConsumerModel(tag, queue, model, prefetch, no_ack)
        model.consumers[tag] = consumer
        queue.consumers.append(consumer)

    def _receiver(self, model: ChannelModel) -> Callable[..., None]:
        def received(_: BlockingChannel, method: Any, __: object, body: bytes) -> None:
            consumer = model.consumers.get(method.consumer_tag)
            try:
                if consumer is None:
                    raise ModelViolated(f"{method} after its consumer had ended")
                consumer.delivered(method.delivery_tag, int(body), method.redelivered)
            except ModelViolated as violation:
                self.violation = self.violation or violation

        return received

    def cancel(self, pick: int) -> None:
        """A consumer ends; what it holds stays its channel's."""
        consumers = self.consumers()
        consumer = consumers[pick % len(consumers)]
        channel = next(each for each, model in self.channels() if model is consumer.channel)
        channel.basic_cancel(consumer.tag)
        del consumer.channel.consumers[consumer.tag]
        consumer.queue.consumers.remove(consumer)

    def get(self, pick: int, which: int, no_ack: bool) -> None:
        """The first message that is ready, or none."""
        channel, model = self._pick_channel(pick)
        queue = self.queues[which % len(self.queues)]
        method, _, body = channel.basic_get(queue.name, auto_ack=no_ack)
        if method is None:
            assert not queue.ready, f"{queue.name} said that it is empty, not {queue.ready}"
        else:
            assert queue.ready, f"{queue.name} gave {body!r} and is empty"
            assert int(body) == queue.ready[0].number
            message = queue.take(int(body), method.redelivered)
            model.delivered(method.delivery_tag, Delivery(queue, message, None), no_ack)
            assert method.message_count == len(queue.ready)

    # -- settlement

    def ack(self, pick: int, which: int, multiple: bool) -> None:
        """Messages end."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_ack(tag, multiple=multiple)
        model.settle(tag, multiple=multiple, requeue=False)

    def nack(self, pick: int, which: int, multiple: bool, requeue: bool) -> None:
        """Messages end, or go back to their old places."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_nack(tag, multiple=multiple, requeue=requeue)
        model.settle(tag, multiple=multiple, requeue=requeue)

    def reject(self, pick: int, which: int, requeue: bool) -> None:
        """As nack, of one message."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_reject(tag, requeue=requeue)
        model.settle(tag, multiple=False, requeue=requeue)

    def settle_all(self, pick: int) -> None:
        """Tag 0, which means everything, whether there is something or not."""
        channel, model = self._pick_channel(pick)
        channel.basic_ack(0, multiple=True)
        model.unsettled.clear()

    def recover(self, pick: int) -> None:
        """Everything that a channel holds goes back."""
        channel, model = self._pick_channel(pick)
        model.recover()
        channel.basic_recover(requeue=True)

    # -- what goes wrong

    def kill_connection(self, pick: int) -> None:
        """A client is gone without a word."""
        client = self.clients[pick % len(self.clients)]
        for _, model in client.channels:
            model.close()
        client.channels.clear()
        cut(client.connection)
        forget(client.connection)
        client.connection = self._connection()

    def restart(self, kill: bool) -> None:
        """The broker stops in order, or dies: what was confirmed, and what was settled before that, counts."""
        if kill:
            self._barrier()
            self.broker.kill()
            self.broker.start()
        else:
            self.broker.restart()
        for _, model in self.channels():
            model.close()
        for client in (self.operator, *self.clients):
            forget(client.connection)
        self._connect()

    def _barrier(self) -> None:
        # Acks are durable behind a later publish that is.
        for channel, _ in self.channels():
            channel.basic_qos()
        self.control.queue_declare("model-barrier", durable=True, arguments={"x-max-length": 1})
        self.control.basic_publish("", "model-barrier", b"", PERSISTENT)

    # -- together

    def _pick_channel(self, pick: int) -> tuple[BlockingChannel, ChannelModel]:
        channels = self.channels()
        return channels[pick % len(channels)]

    def _pick_delivery(self, pick: int, which: int) -> tuple[BlockingChannel, ChannelModel, int]:
        holding = self.holding()
        channel, model = holding[pick % len(holding)]
        tags = list(model.unsettled)
        return channel, model, tags[which % len(tags)]

    def _ack_unknown(self, channel: BlockingChannel, model: ChannelModel) -> None:
        channel.basic_ack(model.last_tag + 1)
        channel.basic_qos()

    def _forget(self, channel: BlockingChannel) -> None:
        for client in self.clients:
            client.channels = [each for each in client.channels if each[0] is not channel]

    def _settled_down(self) -> None:
        """Let everything that is due arrive; then nothing else may."""
        due = {
            queue.name: {message.number for message in queue.due()}
            for queue in self.queues
            if queue.consumers
        }
        for client in self.clients:
            client.round_trips()
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            for client in self.clients:
                client.connection.process_data_events(time_limit=0)
            if self.violation is not None:
                raise self.violation
            late = {
                queue.name: left
                for queue in self.queues
                if (left := due.get(queue.name, set()) & {m.number for m in queue.ready})
            }
            if not late:
                break
            assert time.monotonic() < deadline, f"not delivered: {late}"
        for queue in self.queues:
            queue.drop_excess()
        for consumer in self.consumers():
            consumer.latest = 0
