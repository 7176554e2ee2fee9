"""The pace of Python's garbage collector, which holds the event loop while it runs."""

import asyncio
import gc
from typing import Self

from routelog.log_backend import Clock

# New containers, less freed ones, since the last collection of generation 0.
YOUNG_MAX = 700
# Collections of generation 0 before one of generation 1: 3,500 objects, about 1 ms
YOUNG_LOOKS_MAX = 4
NEVER = 2**31 - 1
YOUNG_SECONDS = 0.05  # until generations 0 and 1 are collected in any case
TICK_SECONDS = 1.0
IDLE_SHARE = 0.1  # of a tick: below it the loop is idle
# New objects of a tick: above it the loop is busy, and only waits for the processor
IDLE_CAME_MAX = 50_000
WHOLE_MIN = 4_000_000  # new objects before all are counted, when the loop is idle
WHOLE_MAX = 16_000_000  # new objects before all are counted, when the loop is never idle
START_MAX = WHOLE_MIN  # instead of YOUNG_MAX until `begin`
WHOLE_GROWTH = 1.5  # times as many as the last full collection left: there is another one


class GarbagePace:
    """Collects young objects twice, then freezes them, so that later collections skip them.

    Python by itself runs a full collection whenever the number of objects has grown by a quarter: with 100,000
    queues, three million objects, that takes half a second. Deleted queues and closed connections leave no
    cycles, so full collections only find unexpected ones. To count what is there takes a ninth of one: without
    more objects than after the last one, there are no cycles to find.

    Python counts a freed object, however old, as one young object less. So while many queues are deleted it
    collects nothing, and then all new objects at once: 1,000 queues declared meanwhile held the loop for 5 ms.
    That is why young objects are collected by the clock, too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._thresholds = gc.get_threshold()
        self._new_objects = 0
        self._stayed = 0
        self._new_objects_before = 0  # at the last tick
        self._thread_seconds = clock.thread_seconds()
        self._timer: asyncio.TimerHandle | None = None
        self._young_timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Take control of the collector."""
        gc.set_threshold(START_MAX, YOUNG_LOOKS_MAX, NEVER)
        gc.callbacks.append(self._looked)
        return self

    def begin(self) -> None:
        """The start is over: what it made stays, but some 200 objects of imports."""
        gc.set_threshold(YOUNG_MAX, YOUNG_LOOKS_MAX, NEVER)
        self._freeze()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._young_timer = self._loop.call_later(YOUNG_SECONDS, self._look_at_young)

    def __exit__(self, *error: object) -> None:
        """Give control back to Python."""
        for timer in (self._timer, self._young_timer):
            if timer is not None:
                timer.cancel()
        gc.callbacks.remove(self._looked)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def look_at_whole(self) -> None:
        """Run a full collection, and freeze the remaining objects."""
        gc.unfreeze()
        gc.collect()
        self._freeze()

    def _freeze(self) -> None:
        gc.freeze()
        self._new_objects = 0
        self._stayed = gc.get_freeze_count()

    def _looked(self, phase: str, info: dict[str, int]) -> None:
        # The collector calls this wherever it runs, in any thread.
        if phase == "stop" and info["generation"] == 1:
            gc.freeze()
            self._new_objects += YOUNG_MAX * (YOUNG_LOOKS_MAX + 1)

    def _look_at_young(self) -> None:
        young, looks, _ = gc.get_count()
        came = self._new_objects + young + looks * YOUNG_MAX
        gc.collect(1)
        self._new_objects = came  # `_looked` took it for a look at as many as it takes by itself
        self._young_timer = self._loop.call_later(YOUNG_SECONDS, self._look_at_young)

    def _tick(self) -> None:
        before, self._thread_seconds = self._thread_seconds, self._clock.thread_seconds()
        came, self._new_objects_before = (
            self._new_objects - self._new_objects_before,
            self._new_objects,
        )
        idle = self._thread_seconds - before < IDLE_SHARE * TICK_SECONDS and came <= IDLE_CAME_MAX
        limit = WHOLE_MIN if idle else WHOLE_MAX
        if self._new_objects > limit:
            self._count_whole()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _count_whole(self) -> None:
        there = gc.get_freeze_count()
        if there > self._stayed * WHOLE_GROWTH:
            self.look_at_whole()
        else:
            self._new_objects = 0
            self._stayed = min(self._stayed, there)
