"""Changes of users, permissions, limits and virtual hosts."""

from routelog.management.pages.changes import NAME, PATTERN, VHOST, Change, Field
from routelog.vhosts import USER_LIMITS, VHOST_LIMITS

_USER = Field("user", "User", is_needed=True)
_PERMISSION = "/permissions/{vhost}/{user}"
_TOPIC = "/topic-permissions/{vhost}/{user}"
_PASSWORD = Field("password", "Password", "password", is_needed=True)
_TAGS = Field(
    "tags",
    "Tags",
    sends_empty=True,
    hint="such as management, monitoring, administrator",
)
_LIMIT_VALUE = Field("value", "At most", "number", value="100", is_needed=True, hint="-1: no limit")

ACCESS_CHANGES = (
    Change(
        "put-user",
        "Add or replace a user",
        "PUT",
        "/users/{user}",
        (Field("user", "Name", is_needed=True), _PASSWORD, _TAGS),
        "User {user} is there.",
        command="user add {user} --tags {tags}",
    ),
    Change(
        "put-password",
        "Set the password",
        "PUT",
        "/users/{user}",
        (_USER, _PASSWORD, _TAGS),
        "User {user} has another password, and signs in again.",
        command="user password {user}",
    ),
    Change(
        "put-tags",
        "Set the tags",
        "PUT",
        "/users/{user}/tags",
        (_USER, _TAGS),
        "User {user} has these tags.",
        command="user tags {user} {tags}",
    ),
    Change(
        "delete-user",
        "Delete",
        "DELETE",
        "/users/{user}",
        done="User {user} is deleted.",
        confirmed_by="user",
        then="/users",
        command="user delete {user}",
    ),
    Change(
        "put-permission",
        "Set a permission",
        "PUT",
        _PERMISSION,
        (
            _USER,
            VHOST,
            Field("configure", "Configure", value=".*", sends_empty=True, hint=PATTERN),
            Field("write", "Write", value=".*", sends_empty=True, hint=PATTERN),
            Field("read", "Read", value=".*", sends_empty=True, hint=PATTERN),
        ),
        "User {user} has this permission in {vhost}.",
        command="permission set {user} {configure} {write} {read} --vhost {vhost}",
    ),
    Change(
        "clear-permission",
        "Clear",
        "DELETE",
        _PERMISSION,
        done="User {user} may not enter {vhost} any more.",
        confirmed_by="user",
        command="permission clear {user} --vhost {vhost}",
    ),
    Change(
        "put-topic-permission",
        "Set a topic permission",
        "PUT",
        _TOPIC,
        (
            _USER,
            VHOST,
            Field("exchange", "Exchange", value="amq.topic", is_needed=True),
            Field("write", "Keys to publish", value=".*", sends_empty=True, hint=PATTERN),
            Field("read", "Keys to bind", value=".*", sends_empty=True, hint=PATTERN),
        ),
        "User {user} has this topic permission in {vhost}.",
        command="topic-permission set {user} {exchange} {write} {read} --vhost {vhost}",
    ),
    Change(
        "clear-topic-permission",
        "Clear",
        "DELETE",
        f"{_TOPIC}/{{exchange}}",
        done="User {user} may use all keys of {exchange} again.",
        command="topic-permission clear {user} {exchange} --vhost {vhost}",
    ),
    Change(
        "put-user-limit",
        "Set a limit",
        "PUT",
        "/user-limits/{user}/{limit}",
        (
            _USER,
            Field("limit", "Limit", choices=USER_LIMITS, is_needed=True),
            _LIMIT_VALUE,
        ),
        "User {user} has this limit.",
        command="limit set {limit} {value} --user {user}",
    ),
    Change(
        "clear-user-limit",
        "Lift",
        "DELETE",
        "/user-limits/{user}/{limit}",
        done="User {user} has no {limit} any more.",
        command="limit clear {limit} --user {user}",
    ),
    Change(
        "put-vhost",
        "Add a virtual host",
        "PUT",
        "/vhosts/{name}",
        (
            NAME,
            Field("description", "Description"),
            Field(
                "default_queue_type",
                "Default type of queues",
                choices=("classic", "quorum", "stream"),
            ),
        ),
        "Virtual host {name} is there.",
        command="vhost add {name}",
    ),
    Change(
        "put-tracing",
        "Set the firehose",
        "PUT",
        "/vhosts/{name}",
        (
            NAME,
            Field(
                "tracing",
                "On",
                "flag",
                hint="copies all that is published and delivered to amq.rabbitmq.trace",
            ),
        ),
        "The firehose of {name} is set.",
    ),
    Change(
        "put-vhost-limit",
        "Set a limit",
        "PUT",
        "/vhost-limits/{vhost}/{limit}",
        (
            VHOST,
            Field("limit", "Limit", choices=VHOST_LIMITS, is_needed=True),
            _LIMIT_VALUE,
        ),
        "Virtual host {vhost} has this limit.",
        command="limit set {limit} {value} --vhost {vhost}",
    ),
    Change(
        "clear-vhost-limit",
        "Lift",
        "DELETE",
        "/vhost-limits/{vhost}/{limit}",
        done="Virtual host {vhost} has no {limit} any more.",
        command="limit clear {limit} --vhost {vhost}",
    ),
    Change(
        "delete-vhost",
        "Delete",
        "DELETE",
        "/vhosts/{name}",
        done="Virtual host {name} is deleted, with all that was in it.",
        confirmed_by="name",
        then="/vhosts",
        command="vhost delete {name}",
    ),
)
