"""Intake budgets for tests, with a loop that only tells the time."""

import time
from types import SimpleNamespace
from typing import Any, cast

from routelog.broker.waiting.intake_budget import IntakeBudget, IntakeLimits, IntakeShare

NO_LIMIT = 1 << 60


def budget(connection: int = NO_LIMIT, user: int = NO_LIMIT, node: int = NO_LIMIT) -> IntakeBudget:
    """One with these limits."""
    loop = SimpleNamespace(
        time=time.monotonic, call_later=lambda *_: SimpleNamespace(cancel=lambda: None)
    )
    return IntakeBudget(cast(Any, loop), IntakeLimits(connection, user, node), lambda size: None)


def share() -> IntakeShare:
    """That of a connection without limits."""
    return budget().share("guest")
