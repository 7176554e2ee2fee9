"""Errors of the HTTP API: the one table from errors to status and name.

Source: RabbitMQ 3.10's management plugin, whose clients match on these.
"""

from routelog import broker, exchanges, log_backend, vhosts

NOT_FOUND = (404, "Object Not Found")
BAD_REQUEST = (400, "bad_request")
NOT_AUTHORISED = (401, "not_authorised")
UNAVAILABLE = (503, "service_unavailable")

REFUSALS: dict[type[Exception], tuple[int, str]] = {
    broker.IntakeFull: UNAVAILABLE,
    exchanges.ExchangeNotFound: (404, "not_found"),
    exchanges.QueueNotFound: (404, "not_found"),
    exchanges.RoutingError: BAD_REQUEST,
    exchanges.ReservedName: NOT_AUTHORISED,
    exchanges.DefaultExchangeProtected: NOT_AUTHORISED,
    exchanges.SystemExchangeProtected: NOT_AUTHORISED,
    vhosts.AccessRefused: NOT_AUTHORISED,
    vhosts.VhostAccessRefused: NOT_AUTHORISED,
    vhosts.AuthenticationBusy: UNAVAILABLE,
    vhosts.TooManyFailedLogins: (401, "not_authorized"),
    vhosts.InvalidRequest: BAD_REQUEST,
    vhosts.NeedsName: BAD_REQUEST,
    vhosts.ParameterNotFound: NOT_FOUND,
    vhosts.PolicyNotFound: NOT_FOUND,
    vhosts.BindingLimitReached: BAD_REQUEST,
    vhosts.DefinitionsLimitReached: BAD_REQUEST,
    vhosts.UserBindingLimitReached: BAD_REQUEST,
    vhosts.QueueInequivalent: BAD_REQUEST,
    vhosts.QueueInUse: BAD_REQUEST,
    vhosts.QueueLimitReached: BAD_REQUEST,
    vhosts.QueueLocked: BAD_REQUEST,
    vhosts.QueueNotEmpty: BAD_REQUEST,
    vhosts.QueueQuarantined: BAD_REQUEST,
    vhosts.QueueUnreadable: UNAVAILABLE,
    vhosts.PlaceUnknown: UNAVAILABLE,
    vhosts.GetRefused: BAD_REQUEST,
    vhosts.NotReadable: BAD_REQUEST,
    vhosts.GroupInequivalent: BAD_REQUEST,
    vhosts.GroupInUse: BAD_REQUEST,
    vhosts.TooManyGroups: BAD_REQUEST,
    vhosts.TooLargeToRemember: BAD_REQUEST,
    vhosts.UserNotFound: NOT_FOUND,
    vhosts.VhostNotFound: NOT_FOUND,
    log_backend.BackupRefused: (409, "conflict"),
    log_backend.BadBucket: BAD_REQUEST,
    log_backend.JournalFailed: UNAVAILABLE,
    log_backend.MetadataUnavailable: UNAVAILABLE,
    log_backend.NotReplicated: UNAVAILABLE,
    log_backend.PartitionClosed: (404, "not_found"),
    log_backend.SegmentDamaged: (409, "damaged"),
}

REASON_CHARACTERS_MAX = 2_048  # reasons quote input of clients


class Refused(Exception):
    """A request that is answered with an error.

    Attributes:
        cause, name: for the log only, such as why a login failed, and its user.
        retry_seconds: of one with 503, after which the client may try again.
    """

    def __init__(
        self,
        status: int,
        error: str,
        reason: str,
        *,
        cause: str = "",
        name: str = "",
        retry_seconds: float = 1.0,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason[:REASON_CHARACTERS_MAX]
        self.cause = cause or self.reason
        self.name = name
        self.retry_seconds = retry_seconds


def bad_request(reason: str) -> Refused:
    """The request is not valid."""
    return Refused(*BAD_REQUEST, reason)


def not_found(kind: str, name: str, vhost: str | None = None) -> Refused:
    """No object of this kind has this name, in a vhost or at all."""
    return Refused(
        *NOT_FOUND, f"no {kind} '{name}'" + ("" if vhost is None else f" in vhost '{vhost}'")
    )


def vhost_or_user_not_found() -> Refused:
    """The user or vhost of a permission does not exist."""
    return bad_request("vhost_or_user_not_found")


def not_authorised(reason: str) -> Refused:
    """The caller has no permission."""
    return Refused(*NOT_AUTHORISED, reason)


def refused(error: Exception) -> Refused | None:
    """How an error of a lower package is answered; None when it is a fault of ours."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, broker.PublishersWait):
        return Refused(*UNAVAILABLE, str(error), retry_seconds=error.seconds)
    for kind in type(error).__mro__:
        if kind in REFUSALS:
            status, name = REFUSALS[kind]
            return Refused(status, name, str(error))
    return None
