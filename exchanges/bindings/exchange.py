"""An exchange as it was declared, and when two declarations mean the same."""

from collections.abc import Mapping

import msgspec

from routelog.exchanges.bindings.errors import ExchangeInequivalent, InvalidExchangeArgument
from routelog.exchanges.bindings.field_values import field_type

NO_ARGUMENTS: Mapping[str, object] = {}

# RabbitMQ's spelling first: it wins when both are given.
_ALTERNATE_ARGUMENTS = ("alternate-exchange", "x-alternate-exchange")


class Exchange(msgspec.Struct, frozen=True):
    """What a declaration fixes for the exchange's life. `arguments` must not be changed.

    Attributes:
        user: who declared it; empty: the broker.
    """

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = NO_ARGUMENTS
    user: str = ""

    @property
    def alternate(self) -> str | None:
        """The exchange that gets what this one routes nowhere."""
        for argument in _ALTERNATE_ARGUMENTS:
            value = self.arguments.get(argument)
            if isinstance(value, str):
                return value
        return None


def check_alternate(exchange: Exchange, vhost: str) -> None:
    """Refuse an alternate exchange whose name is not a string."""
    for argument in _ALTERNATE_ARGUMENTS:
        if argument in exchange.arguments:
            value = exchange.arguments[argument]
            if not isinstance(value, str):
                raise InvalidExchangeArgument(exchange.name, vhost, argument, field_type(value))


def check_equivalent(current: Exchange, received: Exchange, vhost: str) -> None:
    """Refuse a second declaration that asks for another exchange than there is.

    Of the arguments only the alternate exchange is compared, as in RabbitMQ.

    Raises:
        ExchangeInequivalent: names the first property that differs.
    """
    for argument in ("type", "durable", "auto_delete", "internal"):
        asked, has = getattr(received, argument), getattr(current, argument)
        if asked != has:
            raise ExchangeInequivalent(
                current.name, vhost, argument, _property_text(asked), _property_text(has)
            )
    asked, has = received.alternate, current.alternate
    if asked != has:
        raise ExchangeInequivalent(
            current.name, vhost, _ALTERNATE_ARGUMENTS[0], *_alternate_texts(asked, has)
        )


def _property_text(value: str | bool) -> str:
    return f"'{value}'" if isinstance(value, str) else f"'{str(value).lower()}'"


def _alternate_texts(asked: str | None, has: str | None) -> tuple[str, str]:
    if asked is not None and has is not None:
        return f"'{asked}'", f"'{has}'"
    return _optional_text(asked), _optional_text(has)


def _optional_text(name: str | None) -> str:
    return "none" if name is None else f"the value '{name}' of type 'longstr'"
