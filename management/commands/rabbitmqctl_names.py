"""The names that rabbitmqctl has for commands, so that scripts go on; they are not in the help."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Annotated, NamedTuple

import msgspec
import typer

from routelog.management.commands import commands
from routelog.management.commands.api_address import NotReachable
from routelog.management.commands.broker_option import CaFile, DataDir, Url, broker_at, with_broker
from routelog.management.commands.client import NOT_ALLOWED, AnswerRefused, ManagementClient
from routelog.management.commands.options import AsJson, Vhost
from routelog.management.commands.queue_commands import delete_queue, purge_queue
from routelog.management.commands.terminal import complaints, printable, prompt_password, show
from routelog.management.shapes.connection import ChannelRow, ConnectionRow
from routelog.management.shapes.consumer import ConsumerRow
from routelog.management.shapes.definitions import (
    PermissionRow,
    PolicyRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from routelog.management.shapes.exchange import BindingRow, ExchangeRow
from routelog.management.shapes.queue import QueueRow


class Listing(NamedTuple):
    """A list: the shape of its rows, and the columns that it shows when none are named, as rabbitmqctl does."""

    row: type[msgspec.Struct]
    columns: tuple[str, ...]

    def choose(self, named: list[str] | None) -> Sequence[str]:
        """The columns to show.

        Raises:
            typer.BadParameter: no row can have one of those that are named.
        """
        known = [each.encode_name for each in msgspec.structs.fields(self.row)]
        for column in named or ():
            if column not in known:
                raise typer.BadParameter(
                    f"no column '{column}'; there are {', '.join(sorted(known))}"
                )
        return named or self.columns


_POLICIES = Listing(PolicyRow, ("vhost", "name", "pattern", "apply-to", "definition", "priority"))
OF_VHOST = {
    "queues": Listing(QueueRow, ("name", "messages")),
    "exchanges": Listing(ExchangeRow, ("name", "type")),
    "bindings": Listing(
        BindingRow, ("source", "destination", "destination_type", "routing_key", "arguments")
    ),
    "consumers": Listing(
        ConsumerRow,
        ("queue", "channel_details", "consumer_tag", "ack_required", "prefetch_count"),
    ),
    "permissions": Listing(PermissionRow, ("user", "configure", "write", "read")),
    "policies": _POLICIES,
    "operator-policies": _POLICIES,
    "topic-permissions": Listing(TopicPermissionRow, ("user", "exchange", "write", "read")),
}
OF_ALL = {
    "connections": Listing(ConnectionRow, ("user", "peer_host", "peer_port", "state")),
    "channels": Listing(ChannelRow, ("name", "user", "consumer_count", "messages_unacknowledged")),
    "users": Listing(UserRow, ("name", "tags")),
    "vhosts": Listing(VhostRow, ("name",)),
}
BY_VHOST = ("permissions", "topic-permissions")  # whose path begins with the virtual host

Columns = Annotated[list[str] | None, typer.Argument(help="Keys of the HTTP API.")]
Password = Annotated[str | None, typer.Argument()]


@with_broker
def add_user(broker: ManagementClient, name: str, password: Password = None) -> None:
    """Add a user, who has no permissions yet."""
    if any(user["name"] == name for user in broker.get("users")):
        raise AnswerRefused(f"user '{name}' already exists")
    password = prompt_password(name, is_new=True) if password is None else password
    broker.ask("PUT", "users", name, body={"password": password, "tags": ""})


@with_broker
def change_password(broker: ManagementClient, name: str, password: Password = None) -> None:
    """Change a user's password."""
    tags = broker.get("users", name)["tags"]
    password = prompt_password(name, is_new=True) if password is None else password
    broker.ask("PUT", "users", name, body={"password": password, "tags": tags})


@with_broker
def list_user_permissions(broker: ManagementClient, user: str, as_json: AsJson = False) -> None:
    """List what a user may do in each virtual host."""
    rows = broker.get("users", user, "permissions")
    show(rows, ("vhost", "configure", "write", "read"), as_json=as_json)


@with_broker
def authenticate_user(broker: ManagementClient, name: str, password: Password = None) -> None:
    """Tell whether a password is a user's: exit code 1 means no."""
    password = prompt_password(name) if password is None else password
    try:
        broker.as_user(name, password).get("whoami")
    except AnswerRefused as error:
        if error.error != NOT_ALLOWED:  # which asks for a tag, of who has logged in
            raise AnswerRefused(f"user '{name}' is not authenticated: {error}") from None
    typer.echo(printable(f"user '{name}' is authenticated"))


@with_broker
def ping(broker: ManagementClient) -> None:
    """Tell whether the broker answers."""
    broker.get("whoami")
    typer.echo("the broker answers")


def await_startup(
    timeout: Annotated[int, typer.Option(min=1, help="Seconds.")] = 300,
    data_dir: DataDir = Path("data"),
    url: Url = "",
    ca_file: CaFile = "",
) -> None:
    """Wait until the broker answers: exit code 2 when it does not in time."""
    with complaints():
        for tries_left in reversed(range(timeout)):
            try:
                broker_at(data_dir, url, ca_file).get("whoami")
            except NotReachable:
                if not tries_left:
                    raise
                sleep(1)
            else:
                return


@with_broker
def cluster_status(broker: ManagementClient, as_json: AsJson = False) -> None:
    """List the nodes, as the one that leads knows them."""
    columns = ("name", "running", "in_sync", "damaged", "blocks_behind")
    show(broker.get("nodes"), columns, as_json=as_json)


def _list_of_vhost(kind: str) -> Callable[..., None]:
    @with_broker
    def list_them(
        broker: ManagementClient,
        columns: Columns = None,
        vhost: Vhost = "/",
        as_json: AsJson = False,
    ) -> None:
        shown = OF_VHOST[kind].choose(columns)
        path = ("vhosts", vhost, kind) if kind in BY_VHOST else (kind, vhost)
        show(broker.get(*path), shown, as_json=as_json)

    return list_them


def _list_of_all(kind: str) -> Callable[..., None]:
    @with_broker
    def list_them(
        broker: ManagementClient, columns: Columns = None, as_json: AsJson = False
    ) -> None:
        shown = OF_ALL[kind].choose(columns)
        show(broker.get(kind), shown, as_json=as_json)

    return list_them


NAMES: dict[str, Callable[..., None]] = {
    **{f"list_{kind.replace('-', '_')}": _list_of_vhost(kind) for kind in OF_VHOST},
    **{f"list_{kind}": _list_of_all(kind) for kind in OF_ALL},
    "await_startup": await_startup,
    "ping": ping,
    "cluster_status": cluster_status,
    "authenticate_user": authenticate_user,
    "add_user": add_user,
    "change_password": change_password,
    "delete_user": commands.delete_user,
    "set_user_tags": commands.change_tags,
    "list_user_permissions": list_user_permissions,
    "set_permissions": commands.set_permission,
    "clear_permissions": commands.clear_permission,
    "set_topic_permissions": commands.set_topic_permission,
    "clear_topic_permissions": commands.clear_topic_permission,
    "add_vhost": commands.add_vhost,
    "delete_vhost": commands.delete_vhost,
    "set_policy": commands.set_policy,
    "clear_policy": commands.clear_policy,
    "purge_queue": purge_queue,
    "delete_queue": delete_queue,
    "close_connection": commands.close_connection,
    "export_definitions": commands.export_definitions,
    "import_definitions": commands.import_definitions,
    "trace_on": commands.trace_on,
    "trace_off": commands.trace_off,
}
