"""The options that operators' commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="JSON Lines with all there is to say.")]
Vhost = Annotated[str, typer.Option(help="The virtual host.")]


def command_group(name: str, text: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(name=name, help=text, no_args_is_help=True, pretty_exceptions_enable=False)
