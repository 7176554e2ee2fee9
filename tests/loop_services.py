"""What goes on in turns of an event loop, for tests of those who share it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from queue_samples import SetClock

from routelog.amqp_front.sockets.cork import Cork
from routelog.amqp_front.sockets.rota import Rota


def rota_of(loop: object) -> Rota:
    """A rota of a loop, or of a stub that has its `call_soon`, on a clock that stands still."""
    return Rota(cast(Any, loop), SetClock(), Cork(cast(Any, loop)))


def services_of(loop: object, cork: Cork | None = None) -> Any:
    """What sockets share, on such a loop."""
    rota = rota_of(loop)
    return SimpleNamespace(loop=loop, cork=cork or Cork(cast(Any, loop)), rota=rota)
