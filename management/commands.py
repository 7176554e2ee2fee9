"""`routelog list | user | permission | vhost | policy | definitions | delayed | reader | ...`."""

from typing import Annotated, Any

import msgspec
import typer

from management.client import AnswerRefused, ManagementClient
from management.delayed_commands import delayed
from management.options import HERE, AsJson, DataDir, Vhost, command_group
from management.reader_commands import reader
from management.terminal import complaints, show

COLUMNS = {
    "queues": ("vhost", "name", "type", "durable", "policy", "messages_ready",
               "messages_unacknowledged", "consumers"),
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "policy"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
    "connections": ("name", "user_provided_name", "user", "vhost", "state", "channels"),
    "consumers": ("queue", "consumer_tag", "ack_required", "prefetch_count",
                  "messages_unacknowledged", "channel_details"),
    "users": ("name", "tags", "limits"),
    "vhosts": ("name", "description", "tags", "default_queue_type"),
}  # fmt: skip


users = command_group("user", "Add, change and delete users of the running broker.")
permissions = command_group("permission", "Say what users may do in virtual hosts.")
vhosts = command_group("vhost", "Add and delete virtual hosts.")
policies = command_group("policy", "Set and clear policies.")
definitions = command_group("definitions", "Export and import users, virtual hosts and topology.")


def operator_commands(command_line: typer.Typer) -> None:
    """Add these commands to the program's."""
    for group in (users, permissions, vhosts, policies, definitions, delayed, reader):
        command_line.add_typer(group)
    command_line.command("list")(list_things)
    command_line.command("close-connection")(close_connection)
    command_line.command("trace_on")(trace_on)
    command_line.command("trace_off")(trace_off)


def list_things(
    kind: Annotated[str, typer.Argument(help=", ".join(COLUMNS))],
    vhost: Annotated[str | None, typer.Option(help="Only of this virtual host.")] = None,
    data_dir: DataDir = HERE,
    as_json: AsJson = False,
) -> None:
    """List what is in the running broker."""
    if kind not in COLUMNS:
        raise typer.BadParameter(f"expected one of {', '.join(COLUMNS)}")
    with complaints():
        path = [kind]
        if vhost is not None:
            if kind in ("users", "vhosts"):
                raise typer.BadParameter(f"{kind} are in no virtual host")
            path = ["vhosts", vhost, kind] if kind == "connections" else [kind, vhost]
        rows = ManagementClient(data_dir).get(*path)
        show(rows, COLUMNS[kind], as_json=as_json)


def close_connection(
    name: Annotated[str, typer.Argument(help="As `routelog list connections` shows it.")],
    data_dir: DataDir = HERE,
) -> None:
    """Close a client's connection."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", "connections", name)


# -- users


@users.command("add")
def add_user(
    name: str,
    password: Annotated[str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True)],
    tags: Annotated[str, typer.Option(help="Separated by commas.")] = "",
    data_dir: DataDir = HERE,
) -> None:
    """Add a user, who has no permissions yet."""
    with complaints():
        client = ManagementClient(data_dir)
        if any(user["name"] == name for user in client.get("users")):
            raise AnswerRefused(f"user '{name}' already exists")
        client.ask("PUT", "users", name, body={"password": password, "tags": tags})


@users.command("delete")
def delete_user(name: str, data_dir: DataDir = HERE) -> None:
    """Delete a user, and close his connections."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", "users", name)


@users.command("password")
def change_password(
    name: str,
    password: Annotated[str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True)],
    data_dir: DataDir = HERE,
) -> None:
    """Change a user's password."""
    with complaints():
        client = ManagementClient(data_dir)
        tags = client.get("users", name)["tags"]
        client.ask("PUT", "users", name, body={"password": password, "tags": tags})


@users.command("tags")
def change_tags(
    name: str,
    tags: Annotated[list[str] | None, typer.Argument(help="None takes all away.")] = None,
    data_dir: DataDir = HERE,
) -> None:
    """Replace a user's tags."""
    with complaints():
        ManagementClient(data_dir).ask("PUT", "users", name, "tags", body={"tags": tags or []})


# -- permissions


@permissions.command("set")
def set_permission(
    user: str,
    configure: str,
    write: str,
    read: str,
    vhost: Vhost = "/",
    data_dir: DataDir = HERE,
) -> None:
    """Let a user configure, write and read what three regular expressions match."""
    body = {"configure": configure, "write": write, "read": read}
    with complaints():
        ManagementClient(data_dir).ask("PUT", "permissions", vhost, user, body=body)


@permissions.command("clear")
def clear_permission(user: str, vhost: Vhost = "/", data_dir: DataDir = HERE) -> None:
    """Shut a user out of a virtual host."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", "permissions", vhost, user)


@permissions.command("list")
def list_permissions(data_dir: DataDir = HERE, as_json: AsJson = False) -> None:
    """List all permissions."""
    with complaints():
        rows = ManagementClient(data_dir).get("permissions")
        show(rows, ("vhost", "user", "configure", "write", "read"), as_json=as_json)


# -- virtual hosts


@vhosts.command("add")
def add_vhost(
    name: str,
    description: Annotated[str | None, typer.Option()] = None,
    default_queue_type: Annotated[str | None, typer.Option(help="classic, quorum, stream")] = None,
    data_dir: DataDir = HERE,
) -> None:
    """Add a virtual host, or say something else of it."""
    said = {"description": description, "default_queue_type": default_queue_type}
    with complaints():
        body = {name: value for name, value in said.items() if value is not None}
        ManagementClient(data_dir).ask("PUT", "vhosts", name, body=body)


@vhosts.command("delete")
def delete_vhost(name: str, data_dir: DataDir = HERE) -> None:
    """Delete a virtual host with all its queues and messages."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", "vhosts", name)


def trace_on(vhost: Vhost = "/", data_dir: DataDir = HERE) -> None:
    """Copy all that is published and delivered in a virtual host to amq.rabbitmq.trace."""
    with complaints():
        ManagementClient(data_dir).ask("PUT", "vhosts", vhost, body={"tracing": True})


def trace_off(vhost: Vhost = "/", data_dir: DataDir = HERE) -> None:
    """Copy no more."""
    with complaints():
        ManagementClient(data_dir).ask("PUT", "vhosts", vhost, body={"tracing": False})


# -- policies


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


Operator = Annotated[bool, typer.Option("--operator", help="An operator policy.")]


@policies.command("set")
def set_policy(
    name: str,
    pattern: str,
    definition: Annotated[str, typer.Argument(help='JSON, such as {"max-age": "7D"}')],
    priority: Annotated[int, typer.Option()] = 0,
    apply_to: Annotated[str, typer.Option(help="all, queues, exchanges, streams, ...")] = "all",
    vhost: Vhost = "/",
    operator: Operator = False,
    data_dir: DataDir = HERE,
) -> None:
    """Set a policy."""
    try:
        settings: Any = msgspec.json.decode(definition)
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"the definition is no JSON: {error}") from None
    body = {"pattern": pattern, "definition": settings, "priority": priority, "apply-to": apply_to}
    with complaints():
        ManagementClient(data_dir).ask("PUT", _kind(operator), vhost, name, body=body)


@policies.command("clear")
def clear_policy(
    name: str, vhost: Vhost = "/", operator: Operator = False, data_dir: DataDir = HERE
) -> None:
    """Delete a policy."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", _kind(operator), vhost, name)


@policies.command("list")
def list_policies(
    operator: Operator = False, data_dir: DataDir = HERE, as_json: AsJson = False
) -> None:
    """List all policies."""
    with complaints():
        rows = ManagementClient(data_dir).get(_kind(operator))
        columns = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
        show(rows, columns, as_json=as_json)


# -- definitions


@definitions.command("export")
def export_definitions(
    file: Annotated[typer.FileBinaryWrite, typer.Argument(help="- is standard output.")],
    vhost: Annotated[str | None, typer.Option(help="Only what is in this one.")] = None,
    data_dir: DataDir = HERE,
) -> None:
    """Write users, virtual hosts and topology to a file, in RabbitMQ's form."""
    with complaints():
        path = ["definitions"] if vhost is None else ["definitions", vhost]
        for piece in ManagementClient(data_dir).pieces("GET", *path):
            file.write(piece)


@definitions.command("import")
def import_definitions(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="- is standard input.")],
    vhost: Annotated[str | None, typer.Option(help="Import everything into this one.")] = None,
    data_dir: DataDir = HERE,
) -> None:
    """Import a file that RabbitMQ or this broker wrote; a bad entry is named, and changes nothing."""
    with complaints():
        path = ["definitions"] if vhost is None else ["definitions", vhost]
        ManagementClient(data_dir).ask("POST", *path, body=file.read())
