"""When Python's collector of garbage cycles looks at what: it holds the event loop for as long as it looks."""

import asyncio
import gc
from typing import Self

from routelog.log_backend import Clock

# Containers that were made and not freed since the last look at the youngest.
YOUNG_MAX = 700
YOUNG_LOOKS_MAX = 4  # then at all that came since the last such look: 3,500 of them, about 1 ms
NEVER = 2**31 - 1
YOUNG_SECONDS = 0.01  # then at them in any case
TICK_SECONDS = 1.0
IDLE_SHARE = 0.1  # of a tick: nobody is likely to wait
IDLE_CAME_MAX = 50_000  # in a tick: where more come, the machine gives the loop no more of it
WHOLE_MIN = 4_000_000  # that came since the last look at the whole, when the loop is idle
WHOLE_MAX = 16_000_000  # when it never is
WHOLE_SHARE = 0.5  # of what there was: looking at all of it stays rare


class GarbagePace:
    """Looks at each object twice while it is young, and then takes it for one that stays.

    Python's own pace looks at everything whenever a quarter has come to it: with 100,000 queues, three million
    objects, for half a second. Deleted queues and closed connections leave nothing to find, so a look at the
    whole is for what nobody thought of: rare, and when the loop is idle.

    Python counts the young by taking one off for whatever is freed, however old. So while many queues are
    deleted it looks at nothing that comes, and then at all of it: 1,000 queues declared meanwhile held the loop
    for 5 ms. That is why the young are looked at by the clock, too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._thresholds = gc.get_threshold()
        self._new_objects = self._new_objects_before = 0
        self._stayed = 0
        self._new_objects_before = 0  # at the last tick
        self._thread_seconds = clock.thread_seconds()

    def __enter__(self) -> Self:
        """Take the collector over."""
        gc.set_threshold(YOUNG_MAX, YOUNG_LOOKS_MAX, NEVER)
        gc.callbacks.append(self._looked)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        self._young_timer = self._loop.call_later(YOUNG_SECONDS, self._look_at_young)
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the collector to itself again."""
        self._timer.cancel()
        self._young_timer.cancel()
        gc.callbacks.remove(self._looked)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def look_at_whole(self) -> None:
        """Free all cycles that nobody uses, and take what is left as what stays."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._new_objects = 0
        self._stayed = gc.get_freeze_count()

    def _looked(self, phase: str, info: dict[str, int]) -> None:
        # The collector calls this wherever it happens to be at work, in any thread.
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
        if self._new_objects > max(limit, self._stayed * WHOLE_SHARE):
            self.look_at_whole()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
