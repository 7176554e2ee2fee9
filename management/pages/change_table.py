"""The table of all changes that the page offers."""

from typing import Any

from routelog.exchanges import EXCHANGE_TYPES
from routelog.management.pages.access_changes import ACCESS_CHANGES
from routelog.management.pages.changes import (
    NAME,
    PATTERN,
    VHOST,
    WHOLE_BODY,
    Change,
    Field,
    counted,
)
from routelog.vhosts import OPERATOR_KEYS, OVERFLOWS

_DURABLE = Field("durable", "Durable", "flag", value="on")
_AUTO_DELETE = Field("auto_delete", "Auto-delete", "flag")
_QUEUE = "/queues/{vhost}/{name}"
_EXCHANGE = "/exchanges/{vhost}/{name}"
_BINDING = "/bindings/{vhost}/e/{source}/{kind:[qe]}/{destination}"
_DELAYED = f"{_EXCHANGE}/delayed"
_READER = "/logs/{vhost}/{queue}/readers/{name}"
_PLACE = "first, last, next, an offset, -9 for the last nine, a time (ISO 8601), or an age: 1h"
_SELECTION = (
    Field("limit", "At most", "number", value="10000", is_needed=True),
    Field("dry_run", "Only count them", "flag"),
)
_APPLY_TO = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams")


# Of a policy's definition, those that most policies have.
POLICY_FIELDS = (
    Field("definition.max-length", "Most messages", "number"),
    Field("definition.max-length-bytes", "Most bytes", "number"),
    Field("definition.message-ttl", "Messages expire after", "number", hint="milliseconds"),
    Field("definition.expires", "Queues go, unused for", "number", hint="milliseconds"),
    Field("definition.overflow", "When a queue is full", choices=OVERFLOWS),
    Field("definition.delivery-limit", "Deliveries after the first", "number"),
    Field("definition.dead-letter-exchange", "Dead letters go to exchange"),
    Field("definition.dead-letter-routing-key", "Dead letters get the key"),
)
_OF_OPERATORS = {f"definition.{key}" for key in OPERATOR_KEYS}


def moved_text(value: Any, done: str = "Done") -> str:
    """What a move of messages did, or would do."""
    messages = counted(value["count"], "message")
    told = f"That would be {messages}." if value["dry_run"] else f"{done}: {messages}."
    for reason, count in value["skipped"].items():
        told += f" {count:,} stay: {reason}."
    if value["stopped"]:
        told += f" It stopped: {value['stopped']}."
    return told + (" There is more: the same again goes on." if value["next"] else "")


def _moved_reader(value: Any) -> str:
    if value is None:
        return "It goes on at its new place."
    return f"It would skip {value['skipped']:,} messages, and read {value['repeated']:,} once more."


def _cancelled(value: Any) -> str:
    return f"Cancelled: {value['cancelled']:,}."


def _routed(value: Any) -> str:
    if value["routed"]:
        return "Published, confirmed, and routed to at least one queue."
    return "Published, and dropped: no queue is bound for this key."


def _policy_changes(name: str, noun: str, option: str = "") -> tuple[Change, Change]:
    path = f"/{name.removesuffix('y')}ies/{{vhost}}/{{name}}"
    return (
        Change(
            f"put-{name}",
            f"Set {noun}",
            "PUT",
            path,
            (
                VHOST,
                NAME,
                Field("pattern", "Names that match", value="^", is_needed=True, hint=PATTERN),
                Field("apply-to", "Applies to", choices=_APPLY_TO, value="all"),
                Field("priority", "Priority", "number", value="0", is_needed=True),
                *(each for each in POLICY_FIELDS if not option or each.name in _OF_OPERATORS),
                Field(
                    "definition", "Further settings", "json", hint='JSON, such as {"max-age": "7D"}'
                ),
            ),
            f"The {noun} {{name}} is in force.",
            command=(
                "policy set {name} {pattern} {definition} --apply-to {apply-to}"
                f" --priority {{priority}} --vhost {{vhost}}{option}"
            ),
        ),
        Change(
            f"delete-{name}",
            f"Delete {noun}",
            "DELETE",
            path,
            done=f"The {noun} {{name}} is deleted.",
            confirmed_by="name",
            then=path[: path.index("/{")],
            command=f"policy clear {{name}} --vhost {{vhost}}{option}",
        ),
    )


_CHANGES = (
    Change(
        "declare-queue",
        "Add queue",
        "PUT",
        _QUEUE,
        (
            VHOST,
            NAME,
            Field("arguments.x-queue-type", "Type", choices=("classic", "quorum", "stream")),
            _DURABLE,
            _AUTO_DELETE,
            Field(
                "arguments",
                "Further arguments",
                "json",
                hint='JSON, such as {"x-max-length": 1000}',
            ),
        ),
        "Queue {name} is there.",
        then=_QUEUE,
    ),
    Change(
        "change-queue",
        "Change",
        "PUT",
        f"{_QUEUE}/arguments",
        (
            Field(
                WHOLE_BODY,
                "Arguments",
                "json",
                value='{"x-max-length": 1000}',
                hint="JSON; what is left out stays, null removes an argument",
            ),
        ),
        "Queue {name} goes by its new arguments.",
        command="queue set {name} KEY=VALUE --vhost {vhost}",
    ),
    Change(
        "pause-queue",
        "Pause",
        "PUT",
        f"{_QUEUE}/pause",
        done="Queue {name} hands out nothing until it is resumed.",
        command="queue pause {name} --vhost {vhost}",
    ),
    Change(
        "resume-queue",
        "Resume",
        "PUT",
        f"{_QUEUE}/resume",
        done="Queue {name} hands out again.",
        command="queue resume {name} --vhost {vhost}",
    ),
    Change(
        "purge-queue",
        "Purge",
        "DELETE",
        f"{_QUEUE}/contents",
        done="Queue {name} has no ready messages any more.",
        confirmed_by="name",
        command="queue purge {name} --vhost {vhost}",
    ),
    Change(
        "delete-queue",
        "Delete",
        "DELETE",
        _QUEUE,
        done="Queue {name} is deleted.",
        confirmed_by="name",
        then="/queues",
        command="queue delete {name} --vhost {vhost}",
    ),
    Change(
        "publish",
        "Publish",
        "POST",
        "/exchanges/{vhost}/{name:[^/]*}/publish",
        (
            Field("routing_key", "Routing key", sends_empty=True),
            Field("payload", "Body", "lines", sends_empty=True),
            Field(
                "payload_encoding",
                "The body is",
                choices=("string", "base64"),
                value="string",
                labels=("text", "Base64"),
            ),
            Field(
                "properties.delivery_mode",
                "Kept",
                "number",
                ("1", "2"),
                "2",
                labels=("in memory: transient", "on the disk: persistent"),
            ),
            Field("properties.content_type", "Content type", hint="such as application/json"),
            Field("properties.headers", "Headers", "json", hint='JSON, such as {"tenant": "a"}'),
        ),
        tells=_routed,
    ),
    Change(
        "redrive",
        "Send dead letters back",
        "POST",
        f"{_QUEUE}/redrive",
        _SELECTION,
        tells=moved_text,
    ),
    Change(
        "replay",
        "Replay",
        "POST",
        f"{_QUEUE}/replay",
        (
            Field("to.queue", "To queue", is_needed=True),
            Field("filter.time", "Since", value="1h", hint="a time, or an age such as 1h"),
            Field("filter.until", "Before", hint="likewise"),
            *_SELECTION,
        ),
        tells=moved_text,
    ),
    Change(
        "restore",
        "Undo the last purge",
        "POST",
        f"{_QUEUE}/restore",
        _SELECTION,
        tells=moved_text,
    ),
    Change(
        "declare-exchange",
        "Add exchange",
        "PUT",
        _EXCHANGE,
        (
            VHOST,
            NAME,
            Field(
                "type",
                "Type",
                choices=tuple(sorted(EXCHANGE_TYPES)),
                value="topic",
            ),
            _DURABLE,
            _AUTO_DELETE,
            Field("internal", "Internal", "flag"),
            Field(
                "arguments",
                "Arguments",
                "json",
                hint='JSON, such as {"alternate-exchange": "unrouted"}',
            ),
        ),
        "Exchange {name} is there.",
        then=_EXCHANGE,
    ),
    Change(
        "delete-exchange",
        "Delete",
        "DELETE",
        _EXCHANGE,
        done="Exchange {name} is deleted.",
        confirmed_by="name",
        then="/exchanges",
    ),
    Change(
        "cancel-delayed",
        "Cancel",
        "DELETE",
        f"{_DELAYED}/{{id}}",
        done="Message {id} is never delivered.",
        command="delayed cancel {name} {id} --vhost {vhost}",
    ),
    Change(
        "cancel-all-delayed",
        "Cancel all",
        "DELETE",
        _DELAYED,
        tells=_cancelled,
        confirmed_by="name",
        command="delayed cancel {name} --all --vhost {vhost}",
    ),
    Change(
        "move-reader",
        "Move",
        "PUT",
        f"{_READER}/position",
        (
            Field("to", "To", is_needed=True, hint=_PLACE),
            Field("dry_run", "Only say what that skips or repeats", "flag", value="on"),
        ),
        tells=_moved_reader,
        command="reader move {queue} {name} --to {to} --vhost {vhost}",
    ),
    Change(
        "delete-reader",
        "Delete",
        "DELETE",
        _READER,
        done="Nothing is kept for {name} any more.",
        confirmed_by="name",
        then="/readers",
        command="reader delete {queue} {name} --vhost {vhost}",
    ),
    Change(
        "bind",
        "Bind",
        "POST",
        _BINDING,
        (
            Field("source", "From exchange", is_needed=True),
            Field(
                "kind",
                "To",
                choices=("q", "e"),
                value="q",
                labels=("a queue", "an exchange"),
            ),
            Field("destination", "Name", is_needed=True),
            Field("routing_key", "Routing key"),
            Field("arguments", "Arguments", "json", hint='JSON, such as {"x-match": "any"}'),
        ),
        "{source} leads to {destination}.",
    ),
    Change(
        "unbind",
        "Unbind",
        "DELETE",
        f"{_BINDING}/{{properties}}",
        done="{source} does not lead to {destination} by this binding any more.",
    ),
    Change(
        "close-connection",
        "Close",
        "DELETE",
        "/connections/{name}",
        done="Connection {name} is closed.",
        then="/connections",
        command="connection close {name}",
    ),
    *_policy_changes("policy", "policy"),
    *_policy_changes("operator-policy", "operator policy", " --operator"),
)

CHANGES = {change.name: change for change in (*_CHANGES, *ACCESS_CHANGES)}
