"""The options that operators' commands share."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path, typer.Option(envvar="ROUTELOG_DATA_DIR", help="The running broker's data directory.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON Lines with all there is to say.")]
Vhost = Annotated[str, typer.Option(help="The virtual host.")]
HERE = Path("data")


def command_group(name: str, text: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(name=name, help=text, no_args_is_help=True, pretty_exceptions_enable=False)
