"""The table of all changes that the page offers."""

from typing import Any

from routelog.management.pages.changes import Change, Field

_VHOST = Field("vhost", "Virtual host", "vhost", is_needed=True)
_NAME = Field("name", "Name", is_needed=True)
_DURABLE = Field("durable", "Durable", "flag", value="on")
_AUTO_DELETE = Field("auto_delete", "Auto-delete", "flag")
_QUEUE = "/queues/{vhost}/{name}"
_EXCHANGE = "/exchanges/{vhost}/{name}"


def _routed(value: Any) -> str:
    if value["routed"]:
        return "Published, confirmed, and routed to at least one queue."
    return "Published, and dropped: no queue is bound for this key."


_CHANGES = (
    Change(
        "declare-queue",
        "Add queue",
        "PUT",
        _QUEUE,
        (
            _VHOST,
            _NAME,
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
        "purge-queue",
        "Purge",
        "DELETE",
        f"{_QUEUE}/contents",
        done="Queue {name} has no ready messages any more.",
        confirmed_by="name",
        command=("queue", "purge", "{name}", "--vhost", "{vhost}"),
    ),
    Change(
        "delete-queue",
        "Delete",
        "DELETE",
        _QUEUE,
        done="Queue {name} is deleted.",
        confirmed_by="name",
        then="/queues",
        command=("queue", "delete", "{name}", "--vhost", "{vhost}"),
    ),
    Change(
        "publish",
        "Publish",
        "POST",
        "/exchanges/{vhost}/{name:[^/]*}/publish",
        (
            Field("routing_key", "Routing key", sends_empty=True),
            Field("payload", "Body", "lines", sends_empty=True),
            Field("payload_encoding", "The body is", choices=("string", "base64"), value="string"),
            Field(
                "properties.delivery_mode",
                "Delivery mode",
                "number",
                ("1", "2"),
                "2",
                "2 is persistent",
            ),
            Field("properties.content_type", "Content type", hint="such as application/json"),
            Field("properties.headers", "Headers", "json", hint='JSON, such as {"tenant": "a"}'),
        ),
        tells=_routed,
    ),
)

CHANGES = {change.name: change for change in _CHANGES}
