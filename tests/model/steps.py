"""The steps that random clients take, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

CHANNELS_MAX, QUEUES_MAX, CONSUMERS_MAX = 4, 3, 4

_PICK = st.integers(0, 11)
_FLAG = st.booleans()
_DELIVERY = {"pick": _PICK, "which": _PICK}


@dataclass(frozen=True)
class Step:
    """A method of the machine.

    Attributes:
        weight: among the steps that are possible.
        possible: for a machine in its state.
        arguments: by name.
    """

    weight: int
    possible: Callable[[Any], object]
    arguments: Mapping[str, st.SearchStrategy[Any]] = field(default_factory=lambda: {"pick": _PICK})


def _can_consume(machine: Any) -> bool:
    return bool(machine.queues and machine.channels() and len(machine.consumers()) < CONSUMERS_MAX)


# Not rules of hypothesis: it leaves out half of those in most runs, and settlement needs a queue, a message, a
# channel and a consumer.
STEPS = {
    "declare": Step(4, lambda machine: len(machine.queues) < QUEUES_MAX),
    "count": Step(4, lambda machine: machine.queues),
    "delete": Step(1, lambda machine: len(machine.queues) > 1),
    "purge": Step(1, lambda machine: machine.queues),
    "publish": Step(
        16, lambda machine: machine.queues, {"pick": _PICK, "count": st.integers(1, 4)}
    ),
    "open_channel": Step(4, lambda machine: len(machine.channels()) < CHANNELS_MAX),
    "close_channel": Step(2, lambda machine: machine.channels(), {"pick": _PICK, "fault": _FLAG}),
    "restart": Step(1, lambda machine: machine.queues, {"kill": _FLAG}),
    "consume": Step(
        8,
        _can_consume,
        {**_DELIVERY, "prefetch": st.sampled_from((0, 1, 2, 5)), "no_ack": _FLAG},
    ),
    "cancel": Step(2, lambda machine: machine.consumers()),
    "get": Step(
        4, lambda machine: machine.queues and machine.channels(), {**_DELIVERY, "no_ack": _FLAG}
    ),
    "ack": Step(12, lambda machine: machine.holding(), {**_DELIVERY, "multiple": _FLAG}),
    "nack": Step(
        8, lambda machine: machine.holding(), {**_DELIVERY, "multiple": _FLAG, "requeue": _FLAG}
    ),
    "reject": Step(6, lambda machine: machine.holding(), {**_DELIVERY, "requeue": _FLAG}),
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
