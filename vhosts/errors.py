"""Errors of a virtual host. They name the object at fault and no AMQP code."""

from asyncio import Future
from collections.abc import Sequence
from typing import NamedTuple


class InvalidRequest(Exception):
    """A request has a name, value or argument that is not valid."""


class UserExists(Exception):
    """A user of this name is there already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"user '{name}' already exists")


class UserNotFound(Exception):
    """No user has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no user '{name}'")


class InvalidUser(InvalidRequest):
    """A user's name or a tag is empty, too long or not printable."""


class InvalidPermission(InvalidRequest):
    """A permission is no regular expression that can be used."""

    def __init__(self, verb: str, reason: str) -> None:
        super().__init__(f"invalid regular expression for {verb}: {reason}")


class AccessRefused(Exception):
    """A user has no permission for an operation on an exchange or queue."""


class VhostAccessRefused(Exception):
    """A user has no permissions at all in a virtual host."""

    def __init__(self, vhost: str, user: str) -> None:
        super().__init__(f"access to vhost '{vhost}' refused for user '{user}'")


class InvalidPolicy(InvalidRequest):
    """A part of a policy is not valid."""

    def __init__(self, name: str, part: str, reason: str) -> None:
        super().__init__(f"policy '{name}': {part}: {reason}")
        self.part = part


class PolicyNotFound(Exception):
    """A virtual host has no policy of this name."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"no policy '{name}' in vhost '{vhost}'")


class InvalidArguments(InvalidRequest):
    """Arguments that no field table of AMQP can hold."""


class InvalidParameter(InvalidRequest):
    """The name or value of a global parameter is not valid."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"parameter '{name}': {reason}")


class ParameterNotFound(Exception):
    """No global parameter has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no global parameter '{name}'")


class InvalidDefinition(InvalidRequest):
    """Entries of definitions are not valid; nothing was imported.

    Attributes:
        problems: what is wrong, each with its place.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class InvalidLimit(InvalidRequest):
    """A limit does not exist, or its value is not valid."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"limit '{name}': {reason}")


class ConnectionLimitReached(Exception):
    """A virtual host has as many connections as it may have."""

    def __init__(self, vhost: str, user: str, limit: int) -> None:
        super().__init__(
            f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
        )


class UserConnectionLimitReached(Exception):
    """A user has as many connections as he may have."""

    def __init__(self, user: str, limit: int) -> None:
        super().__init__(
            f"connection refused for user '{user}': user connection limit ({limit}) is reached"
        )


class UserChannelLimitReached(Exception):
    """A user has as many channels, over all connections, as he may have."""

    def __init__(self, user: str, limit: int) -> None:
        super().__init__(
            f"number of channels opened for user '{user}' has reached the maximum allowed user "
            f"limit of ({limit})"
        )


class QueueLimitReached(Exception):
    """A virtual host has as many queues as it may have."""

    def __init__(self, queue: str, vhost: str, limit: int) -> None:
        super().__init__(
            f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached"
        )


class BindingLimitReached(Exception):
    """A virtual host has as many bindings as it may have."""

    def __init__(self, vhost: str, limit: int) -> None:
        super().__init__(f"cannot bind: binding limit in vhost '{vhost}' ({limit}) is reached")


class UserBindingLimitReached(Exception):
    """A user has made as many bindings as he may have."""

    def __init__(self, user: str, limit: int) -> None:
        super().__init__(f"cannot bind: binding limit of user '{user}' ({limit}) is reached")


class DefinitionsLimitReached(Exception):
    """Exchanges, queues and bindings of a user, or of the node, would take more memory than they may."""

    def __init__(self, whose: str, size: int, more: int, limit: int) -> None:
        super().__init__(
            f"{whose} definitions of {size} bytes, and with {more} more the limit of {limit} is exceeded "
            "(definitions_bytes)"
        )


class AuthenticationRefused(Exception):
    """A login failed; the text never says why, so that it tells a guesser nothing."""

    def __init__(self) -> None:
        super().__init__("login was refused")


class AuthenticationBusy(Exception):
    """More logins wait to be verified than the node takes; nothing was verified."""


class TooManyFailedLogins(Exception):
    """The user, or others from the same address, have failed too often; nothing was verified."""

    def __init__(self) -> None:
        super().__init__("login was refused: too many failed ones; try again in some seconds")


class VhostNotFound(Exception):
    """No virtual host has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"vhost {name} not found")


class InvalidVhost(InvalidRequest):
    """The description, a tag or the default queue type of a virtual host is not valid."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"vhost '{name}': {reason}")


class QueueLocked(Exception):
    """An exclusive queue belongs to another connection."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be "
            "originally declared on another connection or the exclusive property value does not match "
            "that of the original declaration."
        )


class TooLargeToRemember(Exception):
    """Messages, and the state that exchanges keep of them, do not fit into one commit; none was stored."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"{size} bytes in all queues together are more than the {limit} that can be stored at once "
            "with what an exchange remembers of them"
        )


class QueueInequivalent(Exception):
    """A queue was declared again with another property than it has."""

    def __init__(self, name: str, vhost: str, argument: str, received: str, current: str) -> None:
        super().__init__(
            f"inequivalent arg '{argument}' for queue '{name}' in vhost '{vhost}': "
            f"received {received} but current is {current}"
        )


class InvalidQueueArgument(InvalidRequest):
    """A queue argument has a type or value that it cannot take."""

    def __init__(self, name: str, vhost: str, argument: str, reason: str) -> None:
        super().__init__(
            f"invalid arg '{argument}' for queue '{name}' in vhost '{vhost}': {reason}"
        )


class InvalidQueueProperty(InvalidRequest):
    """Queues of this type cannot have this property."""

    def __init__(self, name: str, vhost: str, property_name: str) -> None:
        super().__init__(
            f"invalid property '{property_name}' for queue '{name}' in vhost '{vhost}'"
        )
        self.property_name = property_name


class NeedsName(Exception):
    """A queue of this type was declared without a name."""

    def __init__(self, queue_type: str) -> None:
        super().__init__(f"Cannot declare a server-named queue for type rabbit_{queue_type}_queue")


class InvalidStreamOffset(InvalidRequest):
    """An `x-stream-offset` names no place in a log."""

    def __init__(self, value: object, kind: str) -> None:
        super().__init__(f"invalid x-stream-offset {value!r} of type '{kind}'")


class NotReadable(Exception):
    """A queue that keeps no log cannot be read from an offset."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(
            f"queue '{name}' in vhost '{vhost}' keeps no log: it is no stream and has no x-retention"
        )


class QueueQuarantined(Exception):
    """The next messages of a queue lie in damaged files; the broker's log names them."""

    def __init__(self, name: str, vhost: str, offset: int) -> None:
        super().__init__(
            f"queue '{name}' in vhost '{vhost}' is quarantined from offset {offset}: its log is damaged; "
            "run 'routelog cluster repair' in a cluster, else stop the broker and run 'routelog log repair'"
        )
        self.name = name
        self.offset = offset


class QueueUnreadable(Exception):
    """The next messages of a queue could not be read from the disk; the next request tries again."""

    def __init__(self, name: str, vhost: str, offset: int, error: BaseException) -> None:
        super().__init__(
            f"queue '{name}' in vhost '{vhost}' cannot be read from offset {offset} on: {error}; nothing "
            "is given up: consume or get again when the disk is well"
        )
        self.name = name
        self.offset = offset


class PlaceUnknown(Exception):
    """Remote storage, which knows where in a queue a time lies, does not answer."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(
            f"remote storage does not answer: where in queue '{name}' in vhost '{vhost}' a time lies is not "
            "known yet; try again, or begin at an offset, first, last or next"
        )


QueueStopped = QueueQuarantined | QueueUnreadable


class PublishRefused(Exception):
    """A queue is full, and refuses what is published instead of making room.

    Attributes:
        refused: indexes of the refused records.
        position: the journal position that the other records wait for.
    """

    def __init__(self, refused: Sequence[int], position: int) -> None:
        super().__init__(f"the queue is full; it refused {len(refused)} messages")
        self.refused = refused
        self.position = position


class Untaken(NamedTuple):
    """What of a batch was not stored, by its indexes.

    Attributes:
        refused: by a queue.
        returned: those that no queue gets.
    """

    refused: Sequence[int] = ()
    returned: Sequence[int] = ()


class OutcomePending(Exception):
    """A queue or exchange of another node was sent what was published, and will say what it does not take.

    Attributes:
        position: of the journal, or session, that the records wait for.
    """

    def __init__(self, position: int, untaken: "Future[Untaken]") -> None:
        super().__init__(f"batch {position} is under way")
        self.position = position
        self.untaken = untaken


class SessionLost(Exception):
    """The node that leads a queue cannot be reached; what it was asked for may have been done."""

    def __init__(self, what: str, node: str) -> None:
        home = f"home node '{node}'" if node else "the home node"
        super().__init__(f"{home} of {what} is down or inaccessible")


class TransactionRefused(Exception):
    """A queue has no room for what a transaction publishes to it; nothing of the transaction is done."""


class QueueInUse(Exception):
    """A queue with consumers was to be deleted if unused."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"queue '{name}' in vhost '{vhost}' in use")


class QueueNotEmpty(Exception):
    """A queue with messages was to be deleted if empty."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"queue '{name}' in vhost '{vhost}' not empty")


class ConsumptionRefused(Exception):
    """The queue has an exclusive consumer, or an exclusive one was to join others."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"queue '{name}' in vhost '{vhost}' in exclusive use")


class GetRefused(Exception):
    """A queue with a single active consumer gives its messages to nobody else."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(
            f"cannot obtain access to locked queue '{name}' in vhost '{vhost}': "
            "it has a single active consumer, so basic.get is not possible"
        )


class InvalidConsumerArgument(InvalidRequest):
    """A consumer argument has a type or value that it cannot take."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(f"invalid arg '{argument}' of a consumer: {reason}")


class InvalidFilter(InvalidRequest):
    """The text of a filter is no condition of SQL."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid x-filter: {reason}")


class FilterRefused(Exception):
    """A queue's own consumers cannot have a filter: what none of them wants would stay for ever."""

    def __init__(self, queue: str, vhost: str) -> None:
        super().__init__(
            f"only streams and groups have filters: the consumer takes from queue '{queue}' in vhost '{vhost}'"
        )


class GroupInequivalent(Exception):
    """A consumer asked for another filter than its group has."""

    def __init__(self, group: str, argument: str, received: object, current: object) -> None:
        super().__init__(
            f"inequivalent arg '{argument}' for {group}: received {_said(received)} but current is "
            f"{_said(current)}"
        )


def _said(value: object) -> str:
    return "none" if value is None else f"'{value}'"


class GroupInUse(Exception):
    """A consumer group with consumers cannot be moved."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"{group} is used: it has consumers, or messages that are not acknowledged"
        )


class TooManyGroups(Exception):
    """A queue has as many consumer groups as one may have."""

    def __init__(self, queue: str, vhost: str, groups_max: int) -> None:
        super().__init__(
            f"queue '{queue}' in vhost '{vhost}' has {groups_max} consumer groups, the most there "
            "can be; those without consumers go when their x-group-expires is over"
        )
