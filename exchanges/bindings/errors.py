"""What a caller can do wrong with a routing topology: one typed error a mistake.

Texts are RabbitMQ's without the code name in front, because clients match on them.
Reply codes belong to the protocol's own table.
"""


class RoutingError(Exception):
    """A request that the topology refuses; nothing was changed."""


class ExchangeNotFound(RoutingError):
    """The exchange named does not exist in this vhost."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"no exchange '{name}' in vhost '{vhost}'")


class QueueNotFound(RoutingError):
    """The queue named as a binding's destination does not exist in this vhost."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"no queue '{name}' in vhost '{vhost}'")


class ExchangeInequivalent(RoutingError):
    """An exchange was declared again with another property than it has."""

    def __init__(self, name: str, vhost: str, argument: str, received: str, current: str) -> None:
        super().__init__(
            f"inequivalent arg '{argument}' for exchange '{name}' in vhost '{vhost}': "
            f"received {received} but current is {current}"
        )


class UnknownExchangeType(RoutingError):
    """No exchange type of this name is registered."""

    def __init__(self, type_name: str) -> None:
        super().__init__(f"unknown exchange type '{type_name}'")


class InvalidExchangeArgument(RoutingError):
    """An exchange argument's value has a type that the argument cannot take."""

    def __init__(self, name: str, vhost: str, argument: str, field_type: str) -> None:
        super().__init__(
            f"invalid type '{field_type}' for arg '{argument}' "
            f"in exchange '{name}' in vhost '{vhost}'"
        )


class InvalidExchangeArguments(RoutingError):
    """The arguments of an exchange make no sense to its type."""


class ReservedName(RoutingError):
    """Names that begin with `amq.` belong to the broker."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


class InvalidName(RoutingError):
    """A name or routing key that could not be sent, stored or shown."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"invalid {kind} {name[:40]!a}: {reason}")
        self.kind = kind
        self.reason = reason


class ExchangeInUse(RoutingError):
    """Delete-if-unused met an exchange that still has bindings."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"exchange '{name}' in vhost '{vhost}' in use")


class DefaultExchangeProtected(RoutingError):
    """The default exchange can be published to, and nothing else."""

    def __init__(self, vhost: str) -> None:
        super().__init__("operation not permitted on the default exchange")


class SystemExchangeProtected(RoutingError):
    """An exchange that begins with `amq.` cannot be deleted."""

    def __init__(self, name: str, vhost: str) -> None:
        super().__init__(f"deletion of system exchange '{name}' in vhost '{vhost}' not allowed")


class InvalidBindingArguments(RoutingError):
    """A binding's arguments make no sense to the exchange that it leaves from."""

    def __init__(self, argument: str, text: str) -> None:
        super().__init__(text)
        self.argument = argument
