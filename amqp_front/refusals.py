"""The one table from errors of the lower packages to reply codes and scopes.

Source: RabbitMQ's codes, because clients depend on them.
"""

import logging
from typing import Any, Protocol

from pamqp import commands

import exchanges
import log_backend
import vhosts
from amqp_front.channel_connection import RefusingChannel
from amqp_front.errors import (
    ACCESS_REFUSED,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    AmqpError,
    HardError,
    LoginRefused,
    SoftError,
)
from amqp_front.services import Services
from vhosts import VirtualHost

log = logging.getLogger(__name__)

REFUSALS: dict[type[Exception], tuple[int, type[AmqpError]]] = {
    exchanges.ExchangeNotFound: (NOT_FOUND, SoftError),
    exchanges.QueueNotFound: (NOT_FOUND, SoftError),
    exchanges.ExchangeInequivalent: (PRECONDITION_FAILED, SoftError),
    exchanges.UnknownExchangeType: (PRECONDITION_FAILED, SoftError),
    exchanges.InvalidExchangeArgument: (PRECONDITION_FAILED, SoftError),
    exchanges.InvalidExchangeArguments: (PRECONDITION_FAILED, SoftError),
    exchanges.InvalidBindingArguments: (PRECONDITION_FAILED, SoftError),
    exchanges.InvalidName: (PRECONDITION_FAILED, SoftError),
    exchanges.ReservedName: (ACCESS_REFUSED, SoftError),
    exchanges.ExchangeInUse: (PRECONDITION_FAILED, SoftError),
    exchanges.DefaultExchangeProtected: (ACCESS_REFUSED, SoftError),
    exchanges.SystemExchangeProtected: (ACCESS_REFUSED, SoftError),
    vhosts.QueueLocked: (RESOURCE_LOCKED, SoftError),
    vhosts.QueueInequivalent: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidQueueArgument: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidQueueProperty: (PRECONDITION_FAILED, SoftError),
    vhosts.NeedsName: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidStreamOffset: (PRECONDITION_FAILED, SoftError),
    vhosts.NotReadable: (PRECONDITION_FAILED, SoftError),
    # On the channel, though the specification has 541 for connections: other queues are well.
    vhosts.QueueQuarantined: (INTERNAL_ERROR, SoftError),
    vhosts.QueueUnreadable: (INTERNAL_ERROR, SoftError),
    vhosts.InvalidConsumerArgument: (PRECONDITION_FAILED, SoftError),
    vhosts.GroupInUse: (PRECONDITION_FAILED, SoftError),
    vhosts.TooManyGroups: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueInUse: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueNotEmpty: (PRECONDITION_FAILED, SoftError),
    vhosts.GetRefused: (RESOURCE_LOCKED, SoftError),
    vhosts.ConsumptionRefused: (ACCESS_REFUSED, SoftError),
    vhosts.AccessRefused: (ACCESS_REFUSED, SoftError),
    vhosts.TooLargeToRemember: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueLimitReached: (PRECONDITION_FAILED, SoftError),
    vhosts.ConnectionLimitReached: (NOT_ALLOWED, HardError),
    vhosts.UserConnectionLimitReached: (NOT_ALLOWED, HardError),
    vhosts.UserChannelLimitReached: (NOT_ALLOWED, HardError),
    vhosts.VhostNotFound: (NOT_ALLOWED, HardError),
    vhosts.VhostAccessRefused: (NOT_ALLOWED, HardError),
    vhosts.AuthenticationRefused: (ACCESS_REFUSED, HardError),
    vhosts.AuthenticationBusy: (ACCESS_REFUSED, HardError),
    vhosts.TooManyFailedLogins: (ACCESS_REFUSED, HardError),
    log_backend.PartitionClosed: (NOT_FOUND, SoftError),
    log_backend.JournalFailed: (INTERNAL_ERROR, HardError),
    log_backend.MetadataUnavailable: (INTERNAL_ERROR, HardError),
}


def refusal(error: Exception) -> AmqpError | None:
    """How an error of a lower package is answered; None when it is a fault of ours."""
    if isinstance(error, AmqpError):
        return error
    entry = REFUSALS.get(type(error))
    if entry is None:
        return None
    code, scope = entry
    return scope(code, str(error))


class RefusedConnection(Protocol):
    """What is said in the log of a connection that is refused something."""

    services: Services
    name: str
    user: str
    vhost: VirtualHost
    admitted: bool


def note_refusal(
    connection: RefusedConnection,
    answer: AmqpError,
    index: int,
    channel: RefusingChannel | None,
) -> None:
    """Say in the log that a channel, or the connection, ends with an error.

    Args:
        index: class and method, as in a method frame; 0: it was no method.
        channel: where it happened; it alone ends when the error says so.
    """
    if isinstance(answer, LoginRefused):
        return
    method: Any = commands.INDEX_MAPPING.get(index)
    number = channel.number if channel is not None and isinstance(answer, SoftError) else None
    connection.services.vhosts.events.note(
        "connection.refused" if number is None else "channel.refused",
        connection=connection.name,
        channel=number,
        user=connection.user,
        vhost=connection.vhost.name if connection.admitted else None,
        code=answer.code,
        reason=answer.reason,
        method=None if method is None else method.name,
    )


def broker_failure(error: Exception, connection: str) -> HardError:
    """Log a fault of ours that a connection met; the client is only told that there was one."""
    log.error("%s: an error of the broker", connection, exc_info=error)
    return HardError(INTERNAL_ERROR, "the broker failed; see its log")
