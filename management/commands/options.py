"""The options that operators' commands share, and those by which messages are found."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import msgspec
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


AsJson = Annotated[bool, typer.Option("--json", help="JSON Lines with all there is to say.")]
Arguments = Annotated[
    list[str] | None, typer.Option("--argument", help="name=value; a value that is JSON is that.")
]
Transient = Annotated[bool, typer.Option("--transient", help="It ends with the broker's run.")]
Vhost = Annotated[str, typer.Option("--vhost", "-p", help="The virtual host.")]


def command_group(name: str, text: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(name=name, help=text, no_args_is_help=True, pretty_exceptions_enable=False)


def named_values(given: list[str] | None) -> dict[str, Any]:
    """Headers or arguments of `name=value`: a value that is JSON is what it says, all else is text.

    Raises:
        typer.BadParameter: one has no name.
    """
    values: dict[str, Any] = {}
    for each in given or ():
        name, equals, text = each.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"expected name=value, not '{each}'")
        try:
            values[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            values[name] = text
    return values
