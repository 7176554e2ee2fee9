"""`routelog limit`: what a virtual host or a user may have, and how fast he may publish."""

from typing import Annotated

import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import AsJson, command_group
from routelog.management.commands.terminal import show

limits = command_group("limit", "Limit virtual hosts and users.")

Limit = Annotated[
    str,
    typer.Argument(
        help="max-queues of a virtual host, max-channels of a user; of both max-connections, max-bindings, "
        "max-publish-rate (messages a second) and max-publish-bytes-rate."
    ),
]
OfVhost = Annotated[str | None, typer.Option("--vhost", "-p", help="The virtual host limited.")]
OfUser = Annotated[str | None, typer.Option("--user", help="The user limited.")]


@limits.command("set", context_settings={"ignore_unknown_options": True})  # -1 is a value
@with_broker
def set_limit(
    broker: ManagementClient,
    limit: Limit,
    value: Annotated[int, typer.Argument(help="-1: no limit.")],
    vhost: OfVhost = None,
    user: OfUser = None,
) -> None:
    """Set a limit of one virtual host or of one user."""
    broker.ask("PUT", *_limited(vhost, user), limit, body={"value": value})


@limits.command("clear")
@with_broker
def clear_limit(
    broker: ManagementClient, limit: Limit, vhost: OfVhost = None, user: OfUser = None
) -> None:
    """Lift a limit."""
    broker.ask("DELETE", *_limited(vhost, user), limit)


@limits.command("list")
@with_broker
def list_limits(broker: ManagementClient, as_json: AsJson = False) -> None:
    """List all limits."""
    rows = [*broker.get("vhost-limits"), *broker.get("user-limits")]
    show(rows, ("vhost", "user", "value"), as_json=as_json)


def _limited(vhost: str | None, user: str | None) -> tuple[str, str]:
    if vhost is not None and user is None:
        return "vhost-limits", vhost
    if user is not None and vhost is None:
        return "user-limits", user
    raise typer.BadParameter("expected either --vhost or --user")
