"""What a node must have let go of when its clients have gone."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.fronts.node import FrontsNode


def unfreed(nodes: Iterable["FrontsNode"], ended: Collection[str]) -> str | None:
    """What is left of clients, in words; None: nothing.

    Args:
        ended: queues that went with their last consumer.
    """
    found: list[str] = []
    for node in nodes:
        if node.broker is None:
            return f"{node.name} is down"
        parts = node.broker.process.parts()
        if not (node.leads or node.session):
            return f"{node.name} has no session"
        left = [
            *_of_node(parts, ended),
            *(_of_front(parts["front"]) if parts["front"] is not None else ()),
            *(_of_leader(parts) if parts["front"] is None else ()),
        ]
        found += [f"{node.name}: {each}" for each in left]
    return "; ".join(found) or None


def _of_node(parts: Any, ended: Collection[str]) -> Iterable[str]:
    if parts["connections"].all:
        yield f"connections: {[(each.state.name, each.name) for each in parts['connections'].all]}"
    gate = parts["gate"]
    if gate.closed:
        yield f"its gate is closed: {sorted(gate.reasons)}"
    if gate._held:
        yield "publishers wait at its gate"
    for vhost in parts["vhosts"].all():
        for name in (*vhost.stored.queues, *vhost.queues):  # of a follower, of a leader
            if name in ended or name.startswith("amq."):
                yield f"queue {name} is defined"


def _of_front(front: Any) -> Iterable[str]:
    session = front.session
    for name in ("_calls", "_consumers", "_outcomes", "_sizes", "_gathered", "unconfirmed_bytes"):
        if getattr(session, name):
            yield f"{name} of its session: {getattr(session, name)}"
    if front._vhosts._connections._numbers:
        yield "numbers of connections"
    if front._unknown:
        yield "changes that it does not know"
    for queues in front._vhosts._queues.values():
        for queue in queues.made():
            if queue._consumers:
                yield f"consumers of {queue}"
            for returns in queue._returns.values():
                if returns._pauses or returns._ranges:
                    yield f"returns to {queue}"


def _of_leader(parts: Any) -> Iterable[str]:
    sessions = parts["sessions"]
    for end in sessions._ends.values():
        for name in ("_consumers", "_gets", "_stalled", "_paused", "_connections", "_calls"):
            if getattr(end, name):
                yield f"{name} of the session of {end.name}: {getattr(end, name)}"
        if end._confirms._entries:
            yield f"confirms of the session of {end.name}"
        for bound in end._queues.values():
            if bound.unsettled.count:
                yield f"gets of the session of {end.name}"
    barrier = sessions.barrier
    if barrier._waits or barrier._given_up:
        yield "waits of the barrier"
    for vhost in parts["vhosts"].all():
        for queue in vhost.queues.values():
            if queue.consumer_count or queue.unacked:
                yield f"{queue.name}: {queue.consumer_count} consumers, {queue.unacked} unacked"
