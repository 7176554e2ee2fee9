"""Random clients of a real broker, held against the model after every step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pika
import pytest
from broker_process import BrokerProcess
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from model.queue_model import (
    ChannelModel,
    ConsumerModel,
    Delivery,
    Message,
    ModelViolated,
    QueueModel,
)
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, NackError
from pika_client import cut

WAIT_SECONDS = 10  # for a delivery that is due
# A restart takes as long as hundreds of other steps. Not an end of the range: these come often.
CHANCES, RESTART = 100, 37
STEPS_TOLD = 10_000
CHANNELS_MAX, QUEUES_MAX, CONSUMERS_MAX = 4, 3, 4
PERSISTENT = pika.BasicProperties(delivery_mode=2)
KINDS = (
    (None, False, {}),
    (3, False, {"x-max-length": 3}),
    (3, True, {"x-max-length": 3, "x-overflow": "reject-publish"}),
)

Pick = st.integers(0, 11)


class Client:
    """A connection with channels, and what the model says of each."""

    def __init__(self, url: str) -> None:
        self.connection: BlockingConnection = pika.BlockingConnection(pika.URLParameters(url))
        self.channels: list[tuple[BlockingChannel, ChannelModel]] = []

    def close(self) -> None:
        """Hang up without a word."""
        cut(self.connection)


class QueueMachine(RuleBasedStateMachine):
    """Queues, consumers and settlement.

    Attributes:
        broker: that all runs share.
        steps: carried out by all runs.
    """

    broker: ClassVar[BrokerProcess]
    steps: ClassVar[int] = 0
    names: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[QueueModel] = []
        self.clients: list[Client] = []
        self.violation: ModelViolated | None = None
        self.published = 0

    @initialize()
    def connect(self) -> None:
        """An operator, and two clients; a run before may have failed in the middle of a restart."""
        if not self.broker.alive:
            self.broker.start()
        self._connect()

    def _connect(self) -> None:
        operator, *self.clients = [Client(self.broker.url) for _ in range(3)]
        self.operator = operator
        self.control = operator.connection.channel()
        self.control.confirm_delivery()

    def teardown(self) -> None:
        """Leave nothing to the next run."""
        for queue in self.queues:
            self.control.queue_delete(queue.name)
        for client in [*self.clients, self.operator]:
            client.close()

    # -- what there is

    def _channels(self) -> list[tuple[BlockingChannel, ChannelModel]]:
        return [each for client in self.clients for each in client.channels]

    def _consumers(self) -> list[ConsumerModel]:
        return [each for _, model in self._channels() for each in model.consumers.values()]

    def _holding(self) -> list[tuple[BlockingChannel, ChannelModel]]:
        return [each for each in self._channels() if each[1].unsettled]

    # -- queues

    @rule(pick=Pick)
    def declare(self, pick: int) -> None:
        """A new queue, or one that is there, with its counts."""
        if len(self.queues) < QUEUES_MAX:
            length_max, refuses, arguments = KINDS[pick % len(KINDS)]
            QueueMachine.names += 1
            name = f"model-{QueueMachine.names}"
            self.control.queue_declare(name, durable=True, arguments=arguments)
            self.queues.append(QueueModel(name, length_max, refuses))
        else:
            queue = self.queues[pick % len(self.queues)]
            answer = self.control.queue_declare(queue.name, passive=True).method
            counted = (answer.message_count, answer.consumer_count)
            expected = (len(queue.ready), len(queue.consumers))
            assert counted == expected, f"{queue.name} has {counted}, not {expected}"
        self._settled_down()

    @precondition(lambda self: len(self.queues) > 1)
    @rule(pick=Pick)
    def delete(self, pick: int) -> None:
        """Consumers are told, and what was handed out comes back nowhere."""
        queue = self.queues.pop(pick % len(self.queues))
        count = self.control.queue_delete(queue.name).method.message_count
        assert count == len(queue.ready)
        queue.deleted = True
        for consumer in queue.consumers:
            del consumer.channel.consumers[consumer.tag]
        self._settled_down()

    @precondition(lambda self: self.queues)
    @rule(pick=Pick)
    def purge(self, pick: int) -> None:
        """What is ready goes; what is handed out stays."""
        queue = self.queues[pick % len(self.queues)]
        assert self.control.queue_purge(queue.name).method.message_count == len(queue.ready)
        queue.ready.clear()
        self._settled_down()

    @precondition(lambda self: self.queues)
    @rule(pick=Pick, count=st.integers(1, 4))
    def publish(self, pick: int, count: int) -> None:
        """Persistent messages, each confirmed or refused."""
        queue = self.queues[pick % len(self.queues)]
        for _ in range(count):
            self.published += 1
            takes = queue.takes()
            try:
                self.control.basic_publish("", queue.name, b"%d" % self.published, PERSISTENT)
            except NackError:
                assert not takes, f"{queue.name} refused a message with {len(queue.ready)} ready"
            else:
                assert takes, f"{queue.name} took a message with {len(queue.ready)} ready"
                queue.ready.append(Message(self.published))
            self._settled_down()

    # -- channels and consumers

    @rule(pick=Pick)
    def open_channel(self, pick: int) -> None:
        """A channel on one of the connections."""
        if len(self._channels()) < CHANNELS_MAX:
            client = self.clients[pick % len(self.clients)]
            client.channels.append((client.connection.channel(), ChannelModel()))
        self._settled_down()

    @precondition(lambda self: self._channels())
    @rule(pick=Pick, fault=st.booleans())
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
        self._settled_down()

    @precondition(lambda self: self._channels() and self.queues)
    @rule(pick=Pick, which=Pick, prefetch=st.sampled_from((0, 1, 2, 5)), no_ack=st.booleans())
    def consume(self, pick: int, which: int, prefetch: int, no_ack: bool) -> None:
        """A consumer that begins with what is ready."""
        if len(self._consumers()) < CONSUMERS_MAX:
            channel, model = self._pick_channel(pick)
            queue = self.queues[which % len(self.queues)]
            channel.basic_qos(prefetch_count=prefetch)
            received = self._receiver(model)
            tag = channel.basic_consume(queue.name, received, auto_ack=no_ack)
            consumer = ConsumerModel(tag, queue, model, prefetch, no_ack)
            model.consumers[tag] = consumer
            queue.consumers.append(consumer)
        self._settled_down()

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

    @precondition(lambda self: self._consumers())
    @rule(pick=Pick)
    def cancel(self, pick: int) -> None:
        """A consumer ends; what it holds stays its channel's."""
        consumers = self._consumers()
        consumer = consumers[pick % len(consumers)]
        channel = next(each for each, model in self._channels() if model is consumer.channel)
        channel.basic_cancel(consumer.tag)
        del consumer.channel.consumers[consumer.tag]
        consumer.queue.consumers.remove(consumer)
        self._settled_down()

    @precondition(lambda self: self._channels() and self.queues)
    @rule(pick=Pick, which=Pick, no_ack=st.booleans())
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
        self._settled_down()

    # -- settlement

    @precondition(lambda self: self._holding())
    @rule(pick=Pick, which=Pick, multiple=st.booleans())
    def ack(self, pick: int, which: int, multiple: bool) -> None:
        """Messages end."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_ack(tag, multiple=multiple)
        model.settle(tag, multiple=multiple, requeue=False)
        self._settled_down()

    @precondition(lambda self: self._holding())
    @rule(pick=Pick, which=Pick, multiple=st.booleans(), requeue=st.booleans())
    def nack(self, pick: int, which: int, multiple: bool, requeue: bool) -> None:
        """Messages end, or go back to their old places."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_nack(tag, multiple=multiple, requeue=requeue)
        model.settle(tag, multiple=multiple, requeue=requeue)
        self._settled_down()

    @precondition(lambda self: self._holding())
    @rule(pick=Pick, which=Pick, requeue=st.booleans())
    def reject(self, pick: int, which: int, requeue: bool) -> None:
        """As nack, of one message."""
        channel, model, tag = self._pick_delivery(pick, which)
        channel.basic_reject(tag, requeue=requeue)
        model.settle(tag, multiple=False, requeue=requeue)
        self._settled_down()

    @precondition(lambda self: self._channels())
    @rule(pick=Pick)
    def settle_all(self, pick: int) -> None:
        """Tag 0, which means everything, whether there is something or not."""
        channel, model = self._pick_channel(pick)
        channel.basic_ack(0, multiple=True)
        model.unsettled.clear()
        self._settled_down()

    @precondition(lambda self: self._channels())
    @rule(pick=Pick)
    def recover(self, pick: int) -> None:
        """Everything that a channel holds goes back."""
        channel, model = self._pick_channel(pick)
        model.recover()
        channel.basic_recover(requeue=True)
        self._settled_down()

    # -- what goes wrong

    @precondition(lambda self: self._channels())
    @rule(pick=Pick)
    def kill_connection(self, pick: int) -> None:
        """A client is gone without a word."""
        client = self.clients[pick % len(self.clients)]
        for _, model in client.channels:
            model.close()
        client.close()
        client.channels.clear()
        client.connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        self._settled_down()

    @precondition(lambda self: self.queues)
    @rule(chance=st.integers(1, CHANCES), kill=st.booleans())
    def restart(self, chance: int, kill: bool) -> None:
        """The broker stops in order, or dies: what was confirmed, and what was settled before that, counts."""
        if chance != RESTART:
            return
        if kill:
            self._barrier()
            self.broker.kill()
            self.broker.start()
        else:
            self.broker.restart()
        for _, model in self._channels():
            model.close()
        self._connect()
        self._settled_down()

    def _barrier(self) -> None:
        # Acks are durable behind a later publish that is.
        for channel, _ in self._channels():
            channel.basic_qos()
        self.control.queue_declare("model-barrier", durable=True, arguments={"x-max-length": 1})
        self.control.basic_publish("", "model-barrier", b"", PERSISTENT)

    # -- together

    def _pick_channel(self, pick: int) -> tuple[BlockingChannel, ChannelModel]:
        channels = self._channels()
        return channels[pick % len(channels)]

    def _pick_delivery(self, pick: int, which: int) -> tuple[BlockingChannel, ChannelModel, int]:
        holding = self._holding()
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
        QueueMachine.steps += 1
        if QueueMachine.steps % STEPS_TOLD == 0:
            sys.stderr.write(f"{QueueMachine.steps} steps as the model says\n")
        due = {
            queue.name: {message.number for message in queue.due()}
            for queue in self.queues
            if queue.consumers
        }
        for channel, _ in self._channels():
            channel.basic_qos()  # answered behind everything that was sent before
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
        for consumer in self._consumers():
            consumer.latest = 0
