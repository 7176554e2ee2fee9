"""The audit events of this interpreter, as values."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from pathlib import PurePath
from typing import NamedTuple

TEXT_CHARACTERS_MAX = 240  # `compile` passes whole sources
ITEMS_MAX = 16
DEPTH_MAX = 2

_KNOWN = (type(None), int, float, str, bytes, list, tuple, PurePath)

Plain = None | bool | int | float | str | list["Plain"]


class AuditEvent(NamedTuple):
    """One audit event; its arguments are copied, so that no object is kept alive by them."""

    name: str
    arguments: list[Plain]
    thread: int
    seconds: float  # since the epoch


class AuditHook:
    """Gathers events until it is closed; add it with `sys.addaudithook`.

    A hook must not raise (that would stop the audited operation) and is called in every thread.
    Events that it causes itself are not gathered: that would never end.
    """

    def __init__(self) -> None:
        self.gathered: deque[AuditEvent] = deque()
        self._open = True
        self._local = threading.local()

    def close(self) -> None:
        """Gather no more; Python has no way to remove a hook."""
        self._open = False

    def __call__(self, name: str, arguments: tuple[object, ...]) -> None:
        if not self._open or getattr(self._local, "inside", False):
            return
        self._local.inside = True
        try:
            copied = [plain(argument) for argument in arguments]
            self.gathered.append(AuditEvent(name, copied, threading.get_ident(), time.time()))
        finally:
            self._local.inside = False


def plain(value: object, depth: int = DEPTH_MAX) -> Plain:
    """A value as JSON can hold it, cut to a reasonable length; a stranger becomes its type's name.

    Asks a stranger for its type only, not even `isinstance`: a proxy's answer could run anything.
    """
    if not issubclass(type(value), _KNOWN):
        return f"<{type(value).__name__}>"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < 64 else f"<int of {value.bit_length()} bits>"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else f"<{value}>"  # JSON has no NaN
    if isinstance(value, bytes):
        return value[:TEXT_CHARACTERS_MAX].decode(errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value[:ITEMS_MAX]] if depth else "<nested>"
    return str(value)[:TEXT_CHARACTERS_MAX]
