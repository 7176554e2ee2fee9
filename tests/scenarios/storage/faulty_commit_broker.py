"""A broker with a fault in one step of each commit that takes several turns: run as a program.

`ROUTELOG_TEST_STEP` says in which, from 1 on; the step does what it does, and then raises.
"""

from __future__ import annotations

import os
from collections import Counter

from routelog.__main__ import main
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.log_backend import Scheduler

STEP = int(os.environ["ROUTELOG_TEST_STEP"])
carry_out = CommitPlan.carry_out
steps: Counter[int] = Counter()


def faulty_carry_out(plan: CommitPlan, scheduler: Scheduler, *, whole: bool = True) -> bool:
    if not whole:
        scheduler.deadline = 0.0  # a step takes as little as it may, however fast the machine is
    is_whole = carry_out(plan, scheduler, whole=whole)
    steps[id(plan)] += not whole
    if steps[id(plan)] == STEP and not whole:
        raise RuntimeError("made to fail")
    return is_whole


if __name__ == "__main__":
    CommitPlan.carry_out = faulty_carry_out  # type: ignore[assignment, method-assign]
    main()
