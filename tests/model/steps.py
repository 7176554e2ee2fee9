"""The steps that random clients take, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

CHANNELS_MAX, QUEUES_MAX, CONSUMERS_MAX = 4, 3, 4

# Drawn for every step, whatever it needs of them: of two consumers the broker chooses one, so what is possible
# differs when hypothesis repeats the beginning of a run, and what is drawn must not.
ARGUMENTS: Mapping[str, st.SearchStrategy[Any]] = {
    "pick": st.integers(0, 11),
    "which": st.integers(0, 11),
    "count": st.integers(1, 4),
    "prefetch": st.sampled_from((0, 1, 2, 5)),
    "no_ack": st.booleans(),
    "multiple": st.booleans(),
    "requeue": st.booleans(),
    "fault": st.booleans(),
    "kill": st.booleans(),
}


@dataclass(frozen=True)
class Step:
    """A method of the machine.

    Attributes:
        weight: among the steps that are possible.
        possible: for a machine in its state.
        arguments: their names.
    """

    weight: int
    possible: Callable[[Any], object]
    arguments: tuple[str, ...] = ("pick",)


def _can_consume(machine: Any) -> bool:
    return bool(machine.queues and machine.channels() and len(machine.consumers()) < CONSUMERS_MAX)


# Not rules of hypothesis: it leaves out half of those in most runs, and settlement needs a queue, a message, a
# channel and a consumer. The first one possible comes twice as often as its weight says: hypothesis likes 0.
STEPS = {
    "publish": Step(16, lambda machine: machine.queues, ("pick", "count")),
    "declare": Step(4, lambda machine: len(machine.queues) < QUEUES_MAX),
    "count": Step(4, lambda machine: machine.queues),
    "delete": Step(1, lambda machine: len(machine.queues) > 1),
    "purge": Step(1, lambda machine: machine.queues),
    "open_channel": Step(4, lambda machine: len(machine.channels()) < CHANNELS_MAX),
    "close_channel": Step(2, lambda machine: machine.channels(), ("pick", "fault")),
    "restart": Step(1, lambda machine: machine.queues, ("kill",)),
    "consume": Step(8, _can_consume, ("pick", "which", "prefetch", "no_ack")),
    "cancel": Step(2, lambda machine: machine.consumers()),
    "get": Step(
        4, lambda machine: machine.queues and machine.channels(), ("pick", "which", "no_ack")
    ),
    "ack": Step(12, lambda machine: machine.holding(), ("pick", "which", "multiple")),
    "nack": Step(8, lambda machine: machine.holding(), ("pick", "which", "multiple", "requeue")),
    "reject": Step(6, lambda machine: machine.holding(), ("pick", "which", "requeue")),
    "settle_all": Step(1, lambda machine: machine.channels()),
    "recover": Step(2, lambda machine: machine.channels()),
    "kill_connection": Step(1, lambda machine: machine.channels()),
}
NEEDED = frozenset({"declare", "publish", "open_channel", "consume"})
# Some are left out of a run, so that queues fill up, or nothing comes back; mostly a restart is, which takes as
# long as hundreds of other steps.
_MOSTLY = st.sampled_from([frozenset({"restart"})] * 49 + [frozenset[str]()])
_SOME = st.frozensets(st.sampled_from(sorted(STEPS.keys() - NEEDED)), max_size=8)
LEFT_OUT = st.builds(frozenset.union, _MOSTLY, _SOME)
