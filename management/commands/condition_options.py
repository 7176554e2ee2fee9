"""Commands find messages by what these options say of them."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

# By the names of the HTTP API's parameters
Conditions = dict[str, str | None]

HELP = {
    "key": "Those with this routing key.",
    "id": "Those with this property message_id.",
    "correlation_id": "Those with this property correlation_id.",
    "header": "Those with a header: name=value.",
    "text": "Those whose bodies hold this text.",
    "filter": "Those for which a condition of SQL is true.",
}

OPTIONS = [
    Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, typer.Option(help=text)],
    )
    for name, text in HELP.items()
]


def with_conditions(command: Callable[..., None]) -> Callable[..., None]:
    """A command of `broker, conditions, name, ...` without the second: each condition is an option."""

    @wraps(command)
    def run(*broker: Any, **given: Any) -> None:
        command(*broker, {name: given.pop(name) for name in HELP}, **given)

    broker, _, *own = signature(command).parameters.values()
    name, *more = (each.replace(kind=Parameter.KEYWORD_ONLY) for each in own)
    shown = [broker, name, *OPTIONS, *more]
    run.__signature__ = signature(command).replace(parameters=shown)  # type: ignore[attr-defined]
    return run
