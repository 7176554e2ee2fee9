"""The broker against the model: a short run here, `make model STEPS=1000000` for a long one.

A long run is different every time; `--hypothesis-seed` repeats one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model.machine import QueueMachine
from model.queue_model import ChannelModel, ConsumerModel, Message, ModelViolated, QueueModel

STEPS = int(os.environ.get("ROUTELOG_TEST_MODEL_STEPS", "600"))
STEPS_OF_A_RUN = 100


@pytest.fixture
def broker_of_the_machine(fresh_broker) -> None:
    QueueMachine.broker = fresh_broker()
    QueueMachine.idle.clear()
    QueueMachine.steps.clear()


@pytest.mark.usefixtures("broker_of_the_machine")
def test_queues_consumers_and_settlement_do_as_the_model_says(
    record_property: Callable[[str, object], None],
) -> None:
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
        steps = QueueMachine.steps
        kinds = ", ".join(f"{count} {name}" for name, count in steps.most_common())
        record_property("figures", f"{steps.total()} steps as the model says: {kinds}")


@pytest.mark.usefixtures("broker_of_the_machine")
@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_brings_back_what_the_model_says(kill: bool) -> None:
    machine = QueueMachine()
    machine.connect(left_out=set())
    for kind in range(3):
        machine.take("declare", pick=kind)
        machine.take("publish", pick=kind, count=4)
    machine.take("open_channel", pick=0)
    machine.take("consume", pick=0, which=0, prefetch=2, no_ack=False)
    machine.take("ack", pick=0, which=0, multiple=False)
    machine.take("get", pick=0, which=1, no_ack=False)
    machine.take("get", pick=0, which=2, no_ack=True)
    machine.take("restart", kill=kill)
    assert [[each.number for each in queue.ready] for queue in machine.queues] == [
        [2, 3, 4],
        [6, 7, 8],
        [10, 11],
    ]
    for which in range(3):
        machine.take("count", pick=which)
        machine.take("open_channel", pick=which)
        machine.take("get", pick=which, which=which, no_ack=True)
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
