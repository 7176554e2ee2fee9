"""The options that operators' commands share."""

from typing import Annotated, Any

import msgspec
import typer

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
