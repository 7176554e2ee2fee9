"""The names that rabbitmqctl has for commands, so that scripts go on; they are not in the help."""

from collections.abc import Callable
from typing import Annotated

import typer

from routelog.management.commands import commands
from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import AnswerRefused, ManagementClient
from routelog.management.commands.options import AsJson, Vhost
from routelog.management.commands.password_prompt import prompt_password
from routelog.management.commands.queue_commands import delete_queue, purge_queue
from routelog.management.commands.terminal import show

# What each list shows when no columns are named, as rabbitmqctl does.
OF_VHOST = {
    "queues": ("name", "messages"),
    "exchanges": ("name", "type"),
    "bindings": ("source", "destination", "destination_type", "routing_key", "arguments"),
    "consumers": ("queue", "channel_details", "consumer_tag", "ack_required", "prefetch_count"),
    "permissions": ("user", "configure", "write", "read"),
    "policies": ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "operator-policies": ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "topic-permissions": ("user", "exchange", "write", "read"),
}
OF_ALL = {
    "connections": ("user", "peer_host", "peer_port", "state"),
    "channels": ("name", "user", "consumer_count", "messages_unacknowledged"),
    "users": ("name", "tags"),
    "vhosts": ("name",),
}
BY_VHOST = ("permissions", "topic-permissions")  # whose path begins with the virtual host

Columns = Annotated[list[str] | None, typer.Argument(help="Keys of the HTTP API.")]
Password = Annotated[str | None, typer.Argument()]


def rabbitmqctl_names(command_line: typer.Typer) -> None:
    """Add hidden commands of these names."""
    add = command_line.command
    for kind in OF_VHOST:
        add(f"list_{kind.replace('-', '_')}", hidden=True)(_list_of_vhost(kind))
    for kind in OF_ALL:
        add(f"list_{kind}", hidden=True)(_list_of_all(kind))
    for name, command in {
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
    }.items():
        add(name, hidden=True)(command)


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


def _list_of_vhost(kind: str) -> Callable[..., None]:
    @with_broker
    def list_them(
        broker: ManagementClient,
        columns: Columns = None,
        vhost: Vhost = "/",
        as_json: AsJson = False,
    ) -> None:
        path = ("vhosts", vhost, kind) if kind in BY_VHOST else (kind, vhost)
        show(broker.get(*path), columns or OF_VHOST[kind], as_json=as_json)

    return list_them


def _list_of_all(kind: str) -> Callable[..., None]:
    @with_broker
    def list_them(
        broker: ManagementClient, columns: Columns = None, as_json: AsJson = False
    ) -> None:
        show(broker.get(kind), columns or OF_ALL[kind], as_json=as_json)

    return list_them
