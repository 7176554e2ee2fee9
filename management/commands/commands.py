"""`routelog list`, and the operators' groups of commands: `user`, `permission`, `policy` and so on."""

from collections.abc import Iterable
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import AnswerRefused, ManagementClient
from routelog.management.commands.options import AsJson, Vhost, command_group
from routelog.management.commands.terminal import EXIT_REFUSED, printable, prompt_password, show

COLUMNS = {
    "queues": ("vhost", "name", "type", "durable", "policy", "messages_ready",
               "messages_unacknowledged", "consumers"),
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "policy"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
    "connections": ("name", "user_provided_name", "user", "vhost", "state", "channels", "node"),
    "channels": ("name", "user", "vhost", "state", "consumer_count", "prefetch_count",
                 "messages_unacknowledged", "node"),
    "consumers": ("queue", "consumer_tag", "ack_required", "prefetch_count",
                  "messages_unacknowledged", "channel_details"),
    "users": ("name", "tags", "limits"),
    "vhosts": ("name", "description", "tags", "default_queue_type"),
}  # fmt: skip


TAGS = ("administrator", "impersonator", "management", "monitoring", "policymaker")

Password = Annotated[
    str | None, typer.Option(help="Else it is asked for, or the next line of standard input.")
]

connections = command_group("connection", "Close connections of clients.")
users = command_group("user", "Add, change and delete users of the running broker.")
permissions = command_group("permission", "Say what users may do in virtual hosts.")
topic_permissions = command_group(
    "topic-permission", "Say which keys of a topic exchange users may publish with and bind."
)
vhosts = command_group("vhost", "Add and delete virtual hosts.")
policies = command_group("policy", "Set and clear policies.")
definitions = command_group("definitions", "Export and import users, virtual hosts and topology.")
firehose = command_group("trace", "Copy what is published and delivered to amq.rabbitmq.trace.")


@with_broker
def list_things(
    broker: ManagementClient,
    kind: Annotated[str, typer.Argument(help=", ".join(COLUMNS))],
    vhost: Annotated[
        str | None, typer.Option("--vhost", "-p", help="Only of this virtual host.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what is in the running broker."""
    if kind not in COLUMNS:
        raise typer.BadParameter(f"expected one of {', '.join(COLUMNS)}")
    path = [kind]
    if vhost is not None:
        if kind in ("users", "vhosts"):
            raise typer.BadParameter(f"{kind} are in no virtual host")
        of_vhost = kind in ("connections", "channels")
        path = ["vhosts", vhost, kind] if of_vhost else [kind, vhost]
    rows = broker.get(*path)
    show(rows, COLUMNS[kind], as_json=as_json)


@connections.command("close")
@with_broker
def close_connection(
    broker: ManagementClient,
    name: Annotated[str, typer.Argument(help="As `routelog list connections` shows it.")],
) -> None:
    """Close a client's connection."""
    broker.ask("DELETE", "connections", name)


# -- users


@users.command("add")
@with_broker
def add_user(
    broker: ManagementClient,
    name: str,
    password: Password = None,
    tags: Annotated[str, typer.Option(help="Separated by commas.")] = "",
) -> None:
    """Add a user, who has no permissions yet."""
    _check_tags(each.strip() for each in tags.split(",") if each)
    if any(user["name"] == name for user in broker.get("users")):
        raise AnswerRefused(f"user '{name}' already exists")
    password = prompt_password(name, is_new=True) if password is None else password
    broker.ask("PUT", "users", name, body={"password": password, "tags": tags})


@users.command("delete")
@with_broker
def delete_user(broker: ManagementClient, name: str) -> None:
    """Delete a user, and close his connections."""
    broker.ask("DELETE", "users", name)


@users.command("password")
@with_broker
def change_password(
    broker: ManagementClient,
    name: str,
    password: Password = None,
) -> None:
    """Change a user's password."""
    tags = broker.get("users", name)["tags"]
    password = prompt_password(name, is_new=True) if password is None else password
    broker.ask("PUT", "users", name, body={"password": password, "tags": tags})


@users.command("hash-password")
def hash_password(password: Password = None) -> None:
    """Print the hash of a password for `password_hash` of definitions, here and in RabbitMQ."""
    # They load what no other command of this file needs.
    from routelog.log_backend import random_key
    from routelog.vhosts import rabbitmq_hash

    password = prompt_password("the user", is_new=True) if password is None else password
    typer.echo(rabbitmq_hash(password.encode(), random_key()))


@users.command("tags")
@with_broker
def change_tags(
    broker: ManagementClient,
    name: str,
    tags: Annotated[list[str] | None, typer.Argument(help="None takes all away.")] = None,
) -> None:
    """Replace a user's tags."""
    _check_tags(tags or ())
    broker.ask("PUT", "users", name, "tags", body={"tags": tags or []})


def _check_tags(tags: Iterable[str]) -> None:
    for tag in tags:
        if tag not in TAGS:
            raise typer.BadParameter(f"no tag '{tag}'; there are {', '.join(TAGS)}")


# -- permissions


@permissions.command("set")
@with_broker
def set_permission(
    broker: ManagementClient,
    user: str,
    configure: str,
    write: str,
    read: str,
    vhost: Vhost = "/",
) -> None:
    """Let a user configure, write and read what three regular expressions match."""
    _check_user(broker, user)
    body = {"configure": configure, "write": write, "read": read}
    broker.ask("PUT", "permissions", vhost, user, body=body)


@permissions.command("clear")
@with_broker
def clear_permission(broker: ManagementClient, user: str, vhost: Vhost = "/") -> None:
    """Shut a user out of a virtual host."""
    broker.ask("DELETE", "permissions", vhost, user)


@permissions.command("list")
@with_broker
def list_permissions(broker: ManagementClient, as_json: AsJson = False) -> None:
    """List all permissions."""
    rows = broker.get("permissions")
    show(rows, ("vhost", "user", "configure", "write", "read"), as_json=as_json)


@permissions.command("may")
@with_broker
def may(
    broker: ManagementClient,
    user: str,
    verb: Annotated[str, typer.Argument(help="configure, write or read")],
    name: Annotated[str, typer.Argument(help="An exchange; amq.default is the default one.")],
    is_queue: Annotated[bool, typer.Option("--queue", help="The name is of a queue.")] = False,
    key: Annotated[str | None, typer.Option(help="Publish, or bind, with this key.")] = None,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Tell whether a user may do something, and which rule decides; exit code 1 means no."""
    if is_queue and key is not None:
        raise typer.BadParameter("a key is for exchanges")
    asked = {"verb": verb, "queue" if is_queue else "exchange": name}
    asked |= {} if key is None else {"routing_key": key}
    answer = broker.get("permissions", vhost, user, "may", query=urlencode(asked))
    if as_json:
        show([answer], (), as_json=True)
    else:
        show(answer["rules"], ("rule", "allowed", "text"), as_json=False)
        kind = "queue" if is_queue else "exchange"
        typer.echo("yes" if answer["allowed"] else "no")
        if not answer["exists"]:
            typer.echo(printable(f"no {kind} '{name}' in vhost '{vhost}'"))
    if not answer["allowed"]:
        raise typer.Exit(EXIT_REFUSED)


@topic_permissions.command("set")
@with_broker
def set_topic_permission(
    broker: ManagementClient,
    user: str,
    exchange: str,
    write: str,
    read: str,
    vhost: Vhost = "/",
) -> None:
    """Let a user publish with and bind those keys only that two regular expressions match."""
    _check_user(broker, user)
    body = {"exchange": exchange, "write": write, "read": read}
    broker.ask("PUT", "topic-permissions", vhost, user, body=body)


def _check_user(broker: ManagementClient, user: str) -> None:
    broker.ask("GET", "users", user)  # PUT would not say which is missing, the user or the vhost


@topic_permissions.command("clear")
@with_broker
def clear_topic_permission(
    broker: ManagementClient,
    user: str,
    exchange: Annotated[str | None, typer.Argument(help="Else of all exchanges.")] = None,
    vhost: Vhost = "/",
) -> None:
    """Let a user have all keys again."""
    of_one = () if exchange is None else (exchange,)
    broker.ask("DELETE", "topic-permissions", vhost, user, *of_one)


@topic_permissions.command("list")
@with_broker
def list_topic_permissions(broker: ManagementClient, as_json: AsJson = False) -> None:
    """List all topic permissions."""
    rows = broker.get("topic-permissions")
    show(rows, ("vhost", "user", "exchange", "write", "read"), as_json=as_json)


# -- virtual hosts


@vhosts.command("add")
@with_broker
def add_vhost(
    broker: ManagementClient,
    name: str,
    description: Annotated[str | None, typer.Option()] = None,
    default_queue_type: Annotated[str | None, typer.Option(help="classic, quorum, stream")] = None,
) -> None:
    """Add a virtual host, or say something else of it."""
    said = {"description": description, "default_queue_type": default_queue_type}
    body = {name: value for name, value in said.items() if value is not None}
    broker.ask("PUT", "vhosts", name, body=body)


@vhosts.command("delete")
@with_broker
def delete_vhost(broker: ManagementClient, name: str) -> None:
    """Delete a virtual host with all its queues and messages."""
    broker.ask("DELETE", "vhosts", name)


# -- the firehose


@firehose.command("on")
@with_broker
def trace_on(broker: ManagementClient, vhost: Vhost = "/") -> None:
    """Copy all of a virtual host from now on."""
    _trace(broker, vhost, switched_on=True)


@firehose.command("off")
@with_broker
def trace_off(broker: ManagementClient, vhost: Vhost = "/") -> None:
    """Copy nothing of it any more."""
    _trace(broker, vhost, switched_on=False)


def _trace(broker: ManagementClient, vhost: str, *, switched_on: bool) -> None:
    broker.ask("GET", "vhosts", vhost)  # PUT would make one that is not there
    broker.ask("PUT", "vhosts", vhost, body={"tracing": switched_on})


# -- policies


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


Operator = Annotated[bool, typer.Option("--operator", help="An operator policy.")]


@policies.command("set")
@with_broker
def set_policy(
    broker: ManagementClient,
    name: str,
    pattern: str,
    definition: Annotated[str, typer.Argument(help='JSON, such as {"max-age": "7D"}')],
    priority: Annotated[int, typer.Option()] = 0,
    apply_to: Annotated[str, typer.Option(help="all, queues, exchanges, streams, ...")] = "all",
    vhost: Vhost = "/",
    operator: Operator = False,
) -> None:
    """Set a policy."""
    try:
        settings: Any = msgspec.json.decode(definition)
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"the definition is no JSON: {error}") from None
    body = {"pattern": pattern, "definition": settings, "priority": priority, "apply-to": apply_to}
    broker.ask("PUT", _kind(operator), vhost, name, body=body)


@policies.command("clear")
@with_broker
def clear_policy(
    broker: ManagementClient, name: str, vhost: Vhost = "/", operator: Operator = False
) -> None:
    """Delete a policy."""
    broker.ask("DELETE", _kind(operator), vhost, name)


@policies.command("list")
@with_broker
def list_policies(
    broker: ManagementClient, operator: Operator = False, as_json: AsJson = False
) -> None:
    """List all policies."""
    rows = broker.get(_kind(operator))
    columns = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
    show(rows, columns, as_json=as_json)


# -- definitions


@definitions.command("export")
@with_broker
def export_definitions(
    broker: ManagementClient,
    file: Annotated[typer.FileBinaryWrite, typer.Argument(help="- is standard output.")],
    vhost: Annotated[
        str | None, typer.Option("--vhost", "-p", help="Only what is in this one.")
    ] = None,
) -> None:
    """Write users, virtual hosts and topology to a file, in RabbitMQ's form."""
    path = ["definitions"] if vhost is None else ["definitions", vhost]
    for piece in broker.pieces("GET", *path):
        file.write(piece)


@definitions.command("import")
@with_broker
def import_definitions(
    broker: ManagementClient,
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="- is standard input.")],
    vhost: Annotated[
        str | None, typer.Option("--vhost", "-p", help="Import everything into this one.")
    ] = None,
    keep_unknown: Annotated[
        bool,
        typer.Option(
            "--keep-unknown", help="Keep shovels and the like, which have no effect here."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be added or changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import a file that RabbitMQ or this broker wrote; a bad entry is named, and changes nothing."""
    content = file.read()
    if not content.strip():
        raise typer.BadParameter(f"{file.name} is empty")
    path = ["definitions"] if vhost is None else ["definitions", vhost]
    said = {"unknown": "keep"} if keep_unknown else {}
    query = urlencode(said | ({"dry_run": "true"} if dry_run else {}))
    answer = broker.ask("POST", *path, body=content, query=query)
    if dry_run:
        _show_plan(msgspec.json.decode(answer), as_json=as_json)
    for entry in msgspec.json.decode(answer)["kept_without_effect"] if answer else ():
        typer.echo(f"kept without effect: {printable(entry)}")


def _show_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    if not as_json:
        counts = [{"kind": kind, **counts} for kind, counts in plan["counts"].items()]
        show(counts, ("kind", "added", "changed", "unchanged", "left"), as_json=False)
    entries = plan["entries"]
    if as_json or entries:
        show(entries, ("what", "kind", "vhost", "name", "reason"), as_json=as_json)
