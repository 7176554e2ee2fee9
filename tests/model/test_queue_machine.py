"""The broker against the model: a short run here, `make model STEPS=1000000` for a long one."""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model.machine import QueueMachine

STEPS = int(os.environ.get("ROUTELOG_TEST_MODEL_STEPS", "600"))
STEPS_OF_A_RUN = 50


def test_queues_consumers_and_settlement_do_as_the_model_says(
    fresh_broker, record_property: Callable[[str, object], None]
) -> None:
    QueueMachine.broker = fresh_broker()
    QueueMachine.steps = 0
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
    record_property("figures", f"{QueueMachine.steps} steps as the model says")
