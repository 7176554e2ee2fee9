"""What operators can do with a queue of a kind: its page offers this, and all else is refused with 400."""

from routelog.management.shapes.queue import Action
from routelog.vhosts import Queue


def actions_of(queue: Queue) -> list[Action]:
    """The actions that the queue's kind and state allow; permissions are another matter."""
    if queue.properties.exclusive:
        return ["publish"]  # all else is its owner's
    actions: list[Action] = ["publish", "delete", "set", "copy"]
    actions.append("resume" if queue.paused else "pause")
    if not queue.is_stream:
        actions += ["purge", "move", "redrive"]
        if not queue.effective.values.get("x-single-active-consumer"):
            actions.append("get")
    if queue.partitions[0].log.retention is not None:
        actions.append("replay")
        if any(each.purged for each in queue.partitions):
            actions.append("restore")
    return actions
