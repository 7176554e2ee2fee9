"""The bindings that lead to one queue or exchange: none, one, or many.

Most queues have few. One binding is held bare, and a dict (ordered, constant-time removal) begins with the
second: that saves 200 bytes for each queue.
"""

from collections.abc import Iterable

from routelog.exchanges.bindings.binding import Binding

HeldBindings = Binding | dict[Binding, None] | None


def with_binding(held: HeldBindings, binding: Binding) -> HeldBindings:
    """Return what is held after adding; a dict is changed in place."""
    if held is None:
        return binding
    if isinstance(held, Binding):
        return {held: None, binding: None}
    held[binding] = None
    return held


def without_binding(held: HeldBindings, binding: Binding) -> HeldBindings:
    """Return what is held after removing, None when that was the last; missing is no error."""
    if held is None or isinstance(held, Binding):
        return None if held == binding else held
    held.pop(binding, None)
    return held or None


def each(held: HeldBindings) -> Iterable[Binding]:
    """Return the bindings held, oldest first."""
    if held is None:
        return ()
    return (held,) if isinstance(held, Binding) else held
