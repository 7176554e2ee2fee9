"""The broker against the model: a short run here, `make model STEPS=1000000` for a long one."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model.machine import RESTART, QueueMachine
from model.queue_model import ChannelModel, ConsumerModel, Message, ModelViolated, QueueModel

STEPS = int(os.environ.get("ROUTELOG_TEST_MODEL_STEPS", "600"))
STEPS_OF_A_RUN = 50


def test_queues_consumers_and_settlement_do_as_the_model_says(
    fresh_broker, record_property: Callable[[str, object], None]
) -> None:
    QueueMachine.broker = fresh_broker()
    QueueMachine.steps = 0
    try:
        run_state_machine_as_test(
            QueueMachine,
            settings=settings(
                max_examples=max(1, STEPS // STEPS_OF_A_RUN),
                stateful_step_count=STEPS_OF_A_RUN,
                deadline=None,
                database=None,
                derandomize=STEPS <= 600,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate,),
            ),
        )
    finally:
        record_property("figures", f"{QueueMachine.steps} steps as the model says")


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_brings_back_what_the_model_says(fresh_broker, kill: bool) -> None:
    QueueMachine.broker = fresh_broker()
    machine = QueueMachine()
    machine.connect()
    for kind in range(3):
        machine.declare(pick=kind)
        machine.publish(pick=kind, count=4)
    machine.open_channel(pick=0)
    machine.consume(pick=0, which=0, prefetch=2, no_ack=False)
    machine.ack(pick=0, which=0, multiple=False)
    machine.get(pick=0, which=1, no_ack=False)
    machine.get(pick=0, which=2, no_ack=True)
    machine.restart(chance=RESTART, kill=kill)
    assert [[each.number for each in queue.ready] for queue in machine.queues] == [
        [2, 3, 4],
        [6, 7, 8],
        [10, 11],
    ]
    for which in range(3):
        machine.declare(pick=which)
        machine.open_channel(pick=which)
        machine.get(pick=which, which=which, no_ack=True)
    machine.teardown()


def test_the_model_notices_what_must_not_be() -> None:
    queue = QueueModel("q", ready=[Message(1), Message(2, redelivered=True)])
    channel = ChannelModel()
    consumer = ConsumerModel("c", queue, channel, prefetch=1, no_ack=False)
    for number, redelivered in ((3, False), (1, True), (2, False)):
        with pytest.raises(ModelViolated):
            consumer.delivered(1, number, redelivered)
    consumer.delivered(1, 1, False)
    with pytest.raises(ModelViolated, match="beyond its prefetch"):
        consumer.delivered(2, 2, True)
    channel.settle(1, multiple=False, requeue=True)
    with pytest.raises(ModelViolated, match="delivery tag 3 follows 1"):
        consumer.delivered(3, 1, True)
