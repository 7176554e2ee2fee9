"""The broker's configuration: one frozen value from file, environment and command line."""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from routelog.log_backend import BadBucket, check_address, without_secrets
from routelog.vhosts import DEFAULT_PASSWORD, DEFAULT_USER, LoopbackRule

KIB = 1024
MIB = 1024 * KIB

COMMAND_LINE = "command line"  # as a source of values, in messages
ENVIRONMENT_PREFIX = "ROUTELOG_"

# Read elsewhere: the file's own place, the uncompiled kernel, the etcd of a node that starts itself again, what
# tests are told, where commands go and where indexes are.
ENVIRONMENT_RESERVED = (
    "ROUTELOG_CONFIG",
    "ROUTELOG_PURE",
    "ROUTELOG_KEPT_CHILD",
    "ROUTELOG_TEST_",
    "ROUTELOG_URL",
    "ROUTELOG_CA_FILE",
    "ROUTELOG_INDEXES",
)

Name = Annotated[str, Meta(min_length=1, max_length=255)]  # an AMQP short string
Seconds = Annotated[float, Meta(gt=0, le=3600)]
NetworkText = Annotated[str, Meta(pattern=r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$")]
# Of Erlang, whose names of nodes RabbitMQ's tools expect: NAME@HOST.
NodeName = Annotated[str, Meta(max_length=255, pattern=r"^[A-Za-z0-9_.-]+(@[A-Za-z0-9_.-]+)?\Z")]
# db@a=10.0.0.1:25672; where they do not go with each other, `mirror_cluster` says so.
NamedAddress = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@-]+=.+:[0-9]+$")]
NamedFile = Annotated[str, Meta(pattern=r"^[^=]+=.+$")]  # mq.example.com=/etc/routelog/mq.pem


_LOOPBACK_USERS = (DEFAULT_USER,)


class ConfigurationError(ValueError):
    """A key that does not exist or a value that cannot be used; names the key and its source."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an operator may choose; docs/operating/configuration.md says what each key means."""

    host: Annotated[str, Meta(min_length=1)] = "0.0.0.0"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 5672  # 0: any free port
    data_dir: Path = Path("data")
    node_name: NodeName = "routelog"  # without `@` the host's name is added
    unix_socket: str = ""
    processes: Annotated[int, Meta(ge=1, le=64)] = (
        1  # the first has the data, the others are its fronts
    )
    proxy_protocol_sources: tuple[NetworkText, ...] = ()

    tls_port: Annotated[int, Meta(ge=0, le=65_535)] = 5671
    tls_certificate: str = ""  # empty: no TLS
    tls_key: str = ""
    tls_authorities: str = ""
    tls_verify: Literal["none", "optional", "required"] = "none"
    tls_names: tuple[NamedFile, ...] = ()
    tls_version_min: Literal["1.2", "1.3"] = "1.2"
    tls_login_from: Literal[
        "distinguished_name", "common_name", "san_dns", "san_email", "san_uri"
    ] = "distinguished_name"

    heartbeat_seconds: Annotated[int, Meta(ge=0, le=65_535)] = 60  # 16 bits in connection.tune
    channel_max: Annotated[int, Meta(ge=1, le=65_535)] = 2047
    # 4,096 is the specification's smallest; above 16 MiB one frame would hold the loop too long.
    frame_max: Annotated[int, Meta(ge=4096, le=16 * MIB)] = 128 * KIB
    handshake_seconds: Seconds = 10.0
    # A body is in memory as a whole while it is published.
    message_bytes_max: Annotated[int, Meta(ge=1, le=512 * MIB)] = 128 * MIB
    # Bodies under construction, transactions, and what clients leave unread. The node's is half of what
    # publishers wait at by default (twice `memory_tail_bytes`); a quarter of it is left when one user has all
    # of his; a connection may have the largest message or transaction.
    intake_bytes_max: Annotated[int, Meta(ge=MIB)] = 256 * MIB
    intake_user_bytes_max: Annotated[int, Meta(ge=MIB)] = 192 * MIB
    intake_connection_bytes_max: Annotated[int, Meta(ge=MIB)] = 128 * MIB
    histories_bytes_max: Annotated[int, Meta(ge=MIB)] = 128 * MIB  # of all recent history exchanges
    connections_max: Annotated[int, Meta(ge=0)] = 0  # 0: as many as there are open files for
    connections_unauthenticated_max: Annotated[int, Meta(ge=1)] = 256
    # As RabbitMQ, which resets after some 30 s. Less would drop clients over slow networks.
    send_timeout_seconds: Seconds = 30.0
    amqp_extensions: bool = False  # what RabbitMQ answers with 540
    relaxed_redeclaration: bool = False  # of a queue with other arguments: it is no error
    definitions_bytes: Annotated[int, Meta(ge=0)] = 0  # of memory; 0: a quarter of what there is
    queues_max: Annotated[int, Meta(ge=1)] = 200_000  # of a vhost; each costs some 10 KB of memory
    disabled_queue_types: tuple[Literal["classic", "quorum", "stream"], ...] = ()

    # How long a delivery may be unsettled before it is taken back; 0: for ever. RabbitMQ's default.
    consumer_timeout_seconds: Annotated[float, Meta(ge=0)] = 1_800.0

    journal_file_bytes: Annotated[int, Meta(ge=MIB)] = 64 * MIB
    journal_files_max: Annotated[int, Meta(ge=2)] = 8  # one is written while one is checkpointed
    # Positions in a segment's index are 32 bits wide.
    segment_bytes: Annotated[int, Meta(ge=64 * KIB, le=1024 * MIB)] = 64 * MIB
    memory_tail_bytes: Annotated[int, Meta(ge=MIB)] = 256 * MIB
    # About 1 MiB each: so many readers can be far behind, each at a place of its own, before one takes what
    # another reads, which then loads it again for every few messages.
    memory_loaded_bytes: Annotated[int, Meta(ge=MIB)] = 64 * MIB
    memory_remote_bytes: Annotated[int, Meta(ge=8 * MIB)] = 64 * MIB  # of requests of up to 8 MiB
    flush_seconds: Seconds = 1.0
    scrub_bytes_per_second: Annotated[int, Meta(ge=0)] = 8 * MIB  # 0: never
    scrub_interval_seconds: Annotated[float, Meta(gt=0)] = 86_400.0
    # Room for what goes on while publishers wait: topology, snapshots, segments of what was journaled.
    disk_reserve_bytes: Annotated[int, Meta(ge=0)] = 256 * MIB
    default_compression: Literal["none", "zstd", "lz4"] = "none"
    default_durability: Literal["memory", "os", "disk", "mirrored"] = "disk"
    retention_seconds: Seconds = 30.0
    # Of what a log would let go, by partition: a reader that is gone must not fill the disk.
    reader_hold_bytes_max: Annotated[int, Meta(ge=0)] = 16 * 1024 * MIB

    remote_storage: str = ""  # empty: none; may hold keys
    remote_storage_bytes_per_second: Annotated[int, Meta(ge=0)] = 64 * MIB  # 0: no limit

    backup_bytes_per_second: Annotated[int, Meta(ge=0)] = 64 * MIB  # of reading; 0: no limit

    management: bool = True
    management_host: str = ""  # empty: as `host`
    management_port: Annotated[int, Meta(ge=0, le=65_535)] = 15672  # 0: any free port
    # A page of the tools has a handful; what reads logs from other hosts, one for each task.
    management_connections_max: Annotated[int, Meta(ge=1)] = 1_024
    management_connections_unauthenticated_max: Annotated[int, Meta(ge=1)] = 256
    management_tls_host: str = ""  # empty: as `management_host`
    management_tls_port: Annotated[int, Meta(ge=0, le=65_535)] = 15671
    management_tls_verify: Literal["none", "optional", "required"] = "none"
    management_names: tuple[str, ...] = ()  # beside those that the node knows
    # What is too little to be told of as a finding of the web page.
    findings_messages: Annotated[int, Meta(ge=1)] = 100
    findings_age_seconds: Annotated[float, Meta(gt=0)] = 600.0
    management_banner: Annotated[str, Meta(max_length=100)] = ""  # empty: none

    prometheus: bool = True
    prometheus_host: str = ""  # empty: as `host`
    prometheus_port: Annotated[int, Meta(ge=0, le=65_535)] = 15692  # 0: any free port

    # Where spans are sent; empty: none are made. What else there is to choose, the OTEL_ variables say.
    otel_endpoint: Annotated[str, Meta(pattern=r"^(https?://[^/?#@]+(/[^?#]*)?)?$")] = ""

    definitions_file: str = ""  # none
    definitions_unknown: Literal["refuse", "keep"] = "refuse"
    default_user: Name = DEFAULT_USER
    default_password: Annotated[str, Meta(min_length=1)] = DEFAULT_PASSWORD.decode()
    default_vhost: Name = "/"
    loopback_users: tuple[Name, ...] = _LOOPBACK_USERS

    cluster_nodes: tuple[NamedAddress, ...] = ()  # none: this node runs on its own
    cluster_name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}\Z")] = "routelog"
    cluster_listen: str = ""  # empty: its address in `cluster_nodes`
    cluster_secret: str = ""
    cluster_tls_certificate: str = ""  # empty: nodes speak without TLS
    cluster_tls_key: str = ""
    cluster_tls_authorities: str = ""
    cluster_etcd: tuple[str, ...] = ()
    cluster_etcd_user: str = ""
    cluster_etcd_password: str = ""
    cluster_min_in_sync: Annotated[int, Meta(ge=1)] = 2
    # Each second more is one that a cluster stands still when a machine is cut off.
    cluster_lease_seconds: Annotated[int, Meta(ge=2, le=30)] = 2
    # Above the time without a leader's confirms that the loss of a node costs: some 3 s.
    cluster_confirm_seconds: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    on_leader: tuple[str, ...] = ()  # a program and its arguments

    standby_listen: str = ""  # empty: no standby follows this node

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @property
    def loopback_rule(self) -> LoopbackRule:
        """Who may log in from this machine only: by default, everybody with the built-in password, too."""
        by_default = self.loopback_users == _LOOPBACK_USERS
        return LoopbackRule(self.loopback_users, default_password=by_default)

    def __repr__(self) -> str:
        hidden = dict.fromkeys(_SECRETS, "***")
        hidden["remote_storage"] = without_secrets(self.remote_storage)
        fields = msgspec.structs.asdict(self) | hidden
        return f"BrokerConfig({', '.join(f'{key}={value!r}' for key, value in fields.items())})"


_SECRETS = ("default_password", "cluster_secret", "cluster_etcd_password")
KEY_TYPES: Mapping[str, Any] = get_type_hints(BrokerConfig, include_extras=True)
KEYS_OF_LISTS = [key for key, kind in KEY_TYPES.items() if get_origin(kind) is tuple]
CHOICES = {key: get_args(kind) for key, kind in KEY_TYPES.items() if get_origin(kind) is Literal}


def load_configuration(
    *,
    file_name: str = "routelog.toml",
    file_text: str = "",
    environment: Mapping[str, str],
    options: Mapping[str, object],
    settings: Sequence[str] = (),
) -> BrokerConfig:
    """Gather the configuration: the command line beats the environment, which beats the file.

    Args:
        file_name: only for messages.
        file_text: TOML; empty when there is no file.
        environment: all of the process's variables; those without `ROUTELOG_` are not looked at.
        options: from the command line, by key; None means not given.
        settings: from the command line, too: `key=value`.

    Raises:
        ConfigurationError: an unknown key or a bad value, or one that does not go with the others; the first
            one found.
    """
    chosen: dict[str, object] = {}
    chosen.update(_from_file(file_name, file_text))
    chosen.update(_from_environment(environment))
    given = {key: value for key, value in options.items() if value is not None}
    chosen.update(_from_options(given))
    chosen.update(_from_settings(settings, set(given)))
    found = BrokerConfig(**chosen)  # type: ignore[arg-type]  # each value was checked by its key
    if found.default_durability == "mirrored" and not found.cluster_nodes:
        raise ConfigurationError('default_durability: "mirrored" needs a cluster: `cluster_nodes`')
    if found.on_leader and not found.cluster_nodes:
        raise ConfigurationError("on_leader: needs a cluster: `cluster_nodes`")
    if found.processes > 1 and found.cluster_nodes:
        raise ConfigurationError("processes: several are for a node without `cluster_nodes`")
    for key in ("tls_key", "tls_authorities", "tls_names"):
        if getattr(found, key) and not found.tls_certificate:
            raise ConfigurationError(f"{key}: without `tls_certificate` there is no TLS")
    return found


def check_default_user(config: BrokerConfig) -> None:
    """Refuse a first user who could log in from everywhere with the password that everybody knows.

    Raises:
        ConfigurationError: it is refused.
    """
    # `guest` without `loopback_users` is what an operator has asked for: there is a warning.
    is_open = config.default_user not in (DEFAULT_USER, *config.loopback_users)
    is_known = config.default_password.encode() == DEFAULT_PASSWORD
    if is_open and is_known and not config.definitions_file:
        raise ConfigurationError(
            f"default_user: '{config.default_user}' needs a password: set ROUTELOG_DEFAULT_PASSWORD, "
            "or default_password, to another one than the built-in"
        )


def _from_file(file_name: str, text: str) -> Iterator[tuple[str, object]]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file_name}: not TOML: {error}") from None
    for key, value in table.items():
        yield key, _checked(file_name, key, key, value, strict=True)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    for variable in sorted(environment):
        if _is_a_key(variable):
            key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            yield key, _checked("environment", variable, key, environment[variable], strict=False)


def _is_a_key(variable: str) -> bool:
    return variable.startswith(ENVIRONMENT_PREFIX) and not any(
        variable.startswith(name) if name.endswith("_") else variable == name
        for name in ENVIRONMENT_RESERVED
    )


def _from_options(options: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in options.items():
        option = "--" + key.replace("_", "-")
        yield key, _checked(COMMAND_LINE, option, key, value, strict=False)


def _from_settings(settings: Sequence[str], given: set[str]) -> Iterator[tuple[str, object]]:
    """Each key once: of two values nobody could say which was meant."""
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign:
            # Not repeated: it may be a password whose key was forgotten.
            raise ConfigurationError(f"{COMMAND_LINE}: --set: expected KEY=VALUE")
        if key in given:
            raise ConfigurationError(f"{COMMAND_LINE}: --set {key}: given twice")
        given.add(key)
        yield key, _checked(COMMAND_LINE, f"--set {key}", key, value, strict=False)


def _checked(source: str, spelling: str, key: str, value: object, *, strict: bool) -> object:
    """The value as its key's type. The message never repeats it: it may be a password."""
    if key not in KEY_TYPES:
        nearest = difflib.get_close_matches(key, KEY_TYPES, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise ConfigurationError(f"{source}: {spelling}: there is no such key{hint}")
    if not strict and key in KEYS_OF_LISTS and isinstance(value, str):
        value = [entry for entry in value.split(",") if entry]
    if isinstance(value, str) and value not in CHOICES.get(key, (value,)):
        expected = ", ".join(CHOICES[key])
        raise ConfigurationError(f"{source}: {spelling}: expected one of {expected}")
    try:
        found = msgspec.convert(value, KEY_TYPES[key], strict=strict, dec_hook=_decode_path)
        if key in CHECKS and found:
            CHECKS[key](found)
    except (msgspec.ValidationError, BadBucket, ValueError) as error:
        raise ConfigurationError(f"{source}: {spelling}: {error}") from None
    return found


def _check_networks(networks: Sequence[str]) -> None:
    for each in networks:
        ip_network(each)


def _check_program(command: Sequence[str]) -> None:
    if not command[0].startswith("/"):
        raise ValueError("expected the path of a program from / on, and its arguments")


# What their types do not say of values: each raises an error that names no secret.
CHECKS: Mapping[str, Callable[[Any], None]] = {
    "proxy_protocol_sources": _check_networks,
    "on_leader": _check_program,
    "remote_storage": check_address,
}


def _decode_path(wanted: type, value: object) -> Path:
    """What msgspec does not know: the one key that is a directory."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    if not value or "\0" in value:
        raise ValueError("Expected the path of a directory")
    return Path(value)


def node_name(wanted: str, host: str) -> str:
    """The node's name in full: a name without a host gets the first part of this one's, as RabbitMQ does it."""
    return wanted if "@" in wanted else f"{wanted}@{host.partition('.')[0]}"
