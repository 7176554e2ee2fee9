"""Operators' commands are given the broker that they ask: the options that say which one it is."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from routelog.management.commands.api_address import local_api, remote_api
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.terminal import complaints, prompt_password

Given = ParamSpec("Given")

DataDir = Annotated[
    Path, typer.Option(envvar="ROUTELOG_DATA_DIR", help="The running broker's data directory.")
]
Url = Annotated[
    str,
    typer.Option(
        envvar="ROUTELOG_URL", help="Instead: a broker elsewhere, https://user@host:15671."
    ),
]
CaFile = Annotated[
    str,
    typer.Option(envvar="ROUTELOG_CA_FILE", help="PEM of whom to trust; else the system's."),
]

OPTIONS = (
    Parameter("data_dir", Parameter.KEYWORD_ONLY, default=Path("data"), annotation=DataDir),
    Parameter("url", Parameter.KEYWORD_ONLY, default="", annotation=Url),
    Parameter("ca_file", Parameter.KEYWORD_ONLY, default="", annotation=CaFile),
)


def broker_at(data_dir: Path, url: str, ca_file: str) -> ManagementClient:
    """The broker that the options name.

    Raises:
        NotReachable: there is none.
    """
    door = remote_api(url, ca_file, prompt_password) if url else local_api(data_dir)
    return ManagementClient(door)


def with_broker(
    command: Callable[Concatenate[ManagementClient, Given], None],
) -> Callable[..., None]:
    """A command without its first parameter: the broker, which options name. Complains when that refuses."""

    @wraps(command)
    def run(*, data_dir: Path, url: str, ca_file: str, **given: Any) -> None:
        with complaints():
            command(broker_at(data_dir, url, ca_file), **given)  # type: ignore[call-arg]  # typer read the rest

    _, *own = signature(command).parameters.values()
    shown = [*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *OPTIONS]
    run.__signature__ = signature(command).replace(parameters=shown)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run
