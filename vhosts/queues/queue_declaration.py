"""The rules of declaring a queue: valid declarations, and equivalent ones."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from routelog.log_backend import random_name
from routelog.vhosts.arguments.json_arguments import checked_arguments
from routelog.vhosts.arguments.queue_arguments import (
    check_arguments,
    check_change,
    check_durability,
    check_equivalent,
    check_remote,
    difference,
    retention,
)
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.errors import (
    InvalidQueueArgument,
    InvalidQueueProperty,
    NeedsName,
    QueueInequivalent,
    QueueLocked,
)
from routelog.vhosts.queues.queue import Queue

log = logging.getLogger(__name__)

QUEUE_TYPE = "x-queue-type"
REPLICATED = ("quorum", "stream")  # in RabbitMQ


def with_type(properties: QueueProperties, default_type: str | None) -> QueueProperties:
    """The declaration with the vhost's default type, if it names none and can have that one."""
    is_local = not properties.durable or properties.exclusive or properties.auto_delete
    if default_type in (None, "classic") or is_local or QUEUE_TYPE in properties.arguments:
        return properties
    return replace(properties, arguments={**properties.arguments, QUEUE_TYPE: default_type})


def check_declaration(vhost: str, properties: QueueProperties, has_remote: bool = True) -> None:
    """Refuse a declaration that is not valid.

    Args:
        has_remote: this broker has remote storage.

    Raises:
        InvalidQueueArgument, InvalidQueueProperty: names the fault.
    """
    name, arguments, is_stored = properties.name, properties.arguments, properties.is_stored
    check_arguments(name, vhost, arguments)
    _check_type(vhost, properties)
    check_durability(name, vhost, arguments, is_stored)
    check_remote(name, vhost, arguments, is_stored, has_remote)


def _check_type(vhost: str, properties: QueueProperties) -> None:
    # Of the types that RabbitMQ replicates, only what all nodes can keep is declared.
    if properties.type == "classic":
        return
    refused = {  # RabbitMQ's names, in its order
        "auto-delete": properties.auto_delete,
        "exclusive-owner": properties.exclusive,
        "non-durable": not properties.durable,
    }
    for name, is_set in refused.items():
        if is_set:
            raise InvalidQueueProperty(properties.name, vhost, name)


def check_enabled(vhost: str, properties: QueueProperties, disabled: Collection[str]) -> None:
    """Refuse to make a queue of a type that the operator has disabled.

    Raises:
        InvalidQueueArgument: names the type.
    """
    if properties.type in disabled:
        reason = f"queues of type '{properties.type}' are disabled here"
        raise InvalidQueueArgument(properties.name, vhost, QUEUE_TYPE, reason)


def check_redeclared(
    vhost: str,
    queue: Queue,
    received: QueueProperties,
    connection: object,
    *,
    relaxed: bool = False,
) -> None:
    """Refuse a declaration that differs from the queue that exists.

    Args:
        relaxed: other arguments are only told to the log.

    Raises:
        QueueLocked: the queue is exclusive to another connection, or is not exclusive at all.
        QueueInequivalent, InvalidQueueArgument: names the argument at fault.
    """
    current = queue.properties
    queue.check_access(connection)
    if received.exclusive != current.exclusive:
        raise QueueLocked(queue.name, vhost)
    for argument in ("durable", "auto_delete"):
        asked, has = getattr(received, argument), getattr(current, argument)
        if asked != has:
            texts = (f"'{str(asked).lower()}'", f"'{str(has).lower()}'")
            raise QueueInequivalent(queue.name, vhost, argument, *texts)
    check_arguments(queue.name, vhost, received.arguments)
    try:
        check_equivalent(queue.name, vhost, current.arguments, received.arguments)
    except QueueInequivalent:
        if not relaxed:
            raise
        told = difference(current.arguments, received.arguments)
        log.info("%s: declared again with arguments that it does not get: %s", queue, told)


def changed_declaration(
    vhost: str, queue: Queue, changes: Mapping[str, object], has_remote: bool
) -> QueueProperties:
    """The declaration of a queue with other arguments; None removes one.

    Raises:
        QueueInequivalent: the queue has one of them for its life.
        InvalidQueueArgument, InvalidQueueProperty: names the fault.
        InvalidArguments: they are too large.
    """
    current = queue.properties
    kept = {name: value for name, value in current.arguments.items() if name not in changes}
    given = {name: value for name, value in changes.items() if value is not None}
    changed = replace(current, arguments=checked_arguments({**kept, **given}))
    check_change(queue.name, vhost, current.arguments, changed.arguments)
    check_declaration(vhost, changed, has_remote)
    if queue.is_read and retention(changed.arguments) is None:
        reason = "consumer groups or stream readers still read its log"
        raise InvalidQueueArgument(queue.name, vhost, "x-retention", reason)
    return changed


def server_name(arguments: Mapping[str, object]) -> str:
    """The name that the broker gives to a queue declared without one.

    Raises:
        NeedsName: a queue of this type needs a name, to be found again.
    """
    queue_type = arguments.get(QUEUE_TYPE, "classic")
    if queue_type in REPLICATED:
        raise NeedsName(str(queue_type))
    return f"amq.gen-{random_name()}"
