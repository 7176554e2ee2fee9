"""The one table from errors of the lower packages to reply codes and scopes.

Source: RabbitMQ's codes, because clients depend on them.
"""

import logging

from routelog import broker, exchanges, log_backend, vhosts
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    AmqpError,
    HardError,
    SoftError,
)

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
    vhosts.PlaceUnknown: (INTERNAL_ERROR, SoftError),
    vhosts.SessionLost: (NOT_FOUND, SoftError),  # as RabbitMQ, when a queue's node is down
    vhosts.TransactionRefused: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidConsumerArgument: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidFilter: (PRECONDITION_FAILED, SoftError),
    vhosts.FilterRefused: (PRECONDITION_FAILED, SoftError),
    vhosts.GroupInequivalent: (PRECONDITION_FAILED, SoftError),
    vhosts.GroupInUse: (PRECONDITION_FAILED, SoftError),
    vhosts.TooManyGroups: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueInUse: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueNotEmpty: (PRECONDITION_FAILED, SoftError),
    vhosts.GetRefused: (RESOURCE_LOCKED, SoftError),
    vhosts.ConsumptionRefused: (ACCESS_REFUSED, SoftError),
    vhosts.AccessRefused: (ACCESS_REFUSED, SoftError),
    vhosts.TooLargeToRemember: (PRECONDITION_FAILED, SoftError),
    vhosts.InvalidArguments: (PRECONDITION_FAILED, SoftError),
    vhosts.QueueLimitReached: (PRECONDITION_FAILED, SoftError),
    vhosts.BindingLimitReached: (PRECONDITION_FAILED, SoftError),
    vhosts.UserBindingLimitReached: (PRECONDITION_FAILED, SoftError),
    vhosts.DefinitionsLimitReached: (PRECONDITION_FAILED, SoftError),
    vhosts.ConnectionLimitReached: (NOT_ALLOWED, HardError),
    vhosts.UserConnectionLimitReached: (NOT_ALLOWED, HardError),
    vhosts.UserChannelLimitReached: (NOT_ALLOWED, HardError),
    vhosts.VhostNotFound: (NOT_ALLOWED, HardError),
    vhosts.VhostAccessRefused: (NOT_ALLOWED, HardError),
    vhosts.AuthenticationRefused: (ACCESS_REFUSED, HardError),
    vhosts.AuthenticationBusy: (ACCESS_REFUSED, HardError),
    vhosts.TooManyFailedLogins: (ACCESS_REFUSED, HardError),
    broker.IntakeFull: (PRECONDITION_FAILED, SoftError),
    log_backend.PartitionClosed: (NOT_FOUND, SoftError),
    log_backend.JournalFailed: (INTERNAL_ERROR, HardError),
    log_backend.MetadataUnavailable: (INTERNAL_ERROR, HardError),
    log_backend.NotReplicated: (INTERNAL_ERROR, HardError),  # as RabbitMQ, without a majority
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


def broker_failure(error: Exception, connection: str) -> HardError:
    """Log a fault of ours that a connection met; the client is only told that there was one."""
    log.error("%s: an error of the broker", connection, exc_info=error)
    return HardError(INTERNAL_ERROR, "the broker failed; see its log")
