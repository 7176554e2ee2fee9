"""The configuration: its defaults, who wins, and what a mistake is answered with."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from routelog.broker.node.configuration import (
    BrokerConfig,
    ConfigurationError,
    check_default_user,
    load_configuration,
    node_name,
)

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "operating" / "configuration.md"
EXAMPLE = PAGE.with_name("routelog.toml")
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \|", re.MULTILINE)
MARKED = re.compile(r"^#(?=[a-z])", re.MULTILINE)


def load(
    file_text: str = "",
    environment: dict[str, str] | None = None,
    options: dict[str, object] | None = None,
    settings: tuple[str, ...] = (),
) -> BrokerConfig:
    return load_configuration(
        file_name="some.toml",
        file_text=file_text,
        environment=environment or {},
        options=options or {},
        settings=settings,
    )


def complaint(**sources: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(**sources)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_nothing_given_is_the_defaults() -> None:
    assert load() == BrokerConfig()


def test_options_beat_the_environment_which_beats_the_file() -> None:
    file = "port = 1001\nheartbeat_seconds = 11\nframe_max = 8192"
    environment = {"ROUTELOG_PORT": "1002", "ROUTELOG_HEARTBEAT_SECONDS": "12"}
    config = load(file, environment, {"port": "1003"})
    assert (config.port, config.heartbeat_seconds, config.frame_max) == (1003, 12, 8192)


def test_an_option_that_was_not_given_leaves_the_value() -> None:
    assert load("port = 1001", options={"port": None}).port == 1001


def test_a_setting_of_the_command_line_beats_environment_and_file() -> None:
    config = load(
        "channel_max = 1\nport = 1001",
        {"ROUTELOG_CHANNEL_MAX": "2"},
        {"port": "1003"},
        ("channel_max=3", "loopback_users=guest,probe", "default_password=a=b", "management=false"),
    )
    assert (config.channel_max, config.port, config.management) == (3, 1003, False)
    assert (config.loopback_users, config.default_password) == (("guest", "probe"), "a=b")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            ("frame_maximum=1",),
            "--set frame_maximum: there is no such key; did you mean frame_max?",
        ),
        (("channel_max=many",), "--set channel_max: Expected `int`"),
        (("channel_max=0",), "--set channel_max: Expected `int` >= 1"),
        (("channel_max",), "--set: expected KEY=VALUE"),
        (("s3cret",), "--set: expected KEY=VALUE"),
        (("=1",), "--set : there is no such key"),
        (("log_format=xml",), "--set log_format: expected one of text, json"),
        (
            ("proxy_protocol_sources=10.0.0.0/8,10.0.0.1/8",),
            "--set proxy_protocol_sources: 10.0.0.1/8 has host bits set",
        ),
        (("remote_storage=/mnt/archive",), "--set remote_storage: expected s3://... or file"),
        (("remote_storage=file://archive",), "--set remote_storage: expected file:///folder"),
        (
            ("remote_storage=s3://key:hidden@?region=eu",),
            "--set remote_storage: the address names no bucket",
        ),
        (("channel_max=1", "channel_max=2"), "--set channel_max: given twice"),
        (("port=1",), "--set port: given twice"),
    ],
)
def test_a_setting_that_cannot_be_is_named_and_its_value_is_not(
    settings: tuple[str, ...], reason: str
) -> None:
    message = complaint(options={"port": "1003"}, settings=settings)
    assert message.startswith(f"command line: {reason}")
    assert "s3cret" not in message


def test_every_key_can_come_from_the_file_the_environment_and_the_command_line() -> None:
    defaults = json.loads(msgspec.json.encode(BrokerConfig(), enc_hook=str))
    in_toml = "\n".join(f"{key} = {_toml(value)}" for key, value in defaults.items())
    in_environment = {
        f"ROUTELOG_{key.upper()}": ",".join(value) if isinstance(value, list) else str(value)
        for key, value in defaults.items()
    }
    settings = [
        f"{name.removeprefix('ROUTELOG_').lower()}={value}"
        for name, value in in_environment.items()
    ]
    assert load(in_toml) == load(environment=in_environment) == BrokerConfig()
    assert load(settings=tuple(settings)) == BrokerConfig()


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float | list) else f'"{value}"'


def test_a_list_in_the_environment_is_separated_by_commas() -> None:
    environment = {"ROUTELOG_LOOPBACK_USERS": "guest,probe"}
    assert load(environment=environment).loopback_users == ("guest", "probe")
    assert load(environment={"ROUTELOG_LOOPBACK_USERS": ""}).loopback_users == ()


def test_the_data_directory_is_a_path() -> None:
    assert load('data_dir = "/srv/routelog"').data_dir == Path("/srv/routelog")
    assert load(options={"data_dir": "here"}).data_dir == Path("here")


@pytest.mark.parametrize(
    "line",
    [
        'port = "5672"',
        "port = 5672.0",
        "port = true",
        "port = -1",
        "port = 65536",
        "port = [1]",
        "port = 99999999999999999999999999",
        'host = ""',
        'proxy_protocol_sources = ["everywhere"]',
        "proxy_protocol_sources = 1",
        'tls_verify = "maybe"',
        'tls_names = ["mq.pem"]',
        'tls_names = ["=mq.pem"]',
        'tls_version_min = "1.1"',
        'tls_login_from = "cn"',
        "host = 1",
        "data_dir = 1",
        'data_dir = ""',
        'data_dir = "a\\u0000b"',
        'node_name = ""',
        'node_name = "a b"',
        'node_name = "a@b@c"',
        'node_name = "a\\n"',
        "heartbeat_seconds = 65536",
        "channel_max = 0",
        "frame_max = 4095",
        "handshake_seconds = 0",
        "handshake_seconds = nan",
        "handshake_seconds = inf",
        "message_bytes_max = 0",
        "connections_unauthenticated_max = 0",
        "journal_file_bytes = 1048575",
        "journal_files_max = 1",
        "segment_bytes = 65535",
        "memory_tail_bytes = 0",
        "flush_seconds = -1.0",
        "flush_seconds = 1979-05-27",
        'default_user = ""',
        "default_password = 1",
        'default_vhost = ""',
        'loopback_users = "guest"',
        "loopback_users = [1]",
        'disabled_queue_types = ["fast"]',
        'on_leader = ["move-address"]',
        'log_level = "loud"',
        'log_format = "xml"',
    ],
)
def test_a_bad_value_in_the_file_names_the_key_and_the_file(line: str) -> None:
    key = line.split()[0]
    assert complaint(file_text=line).startswith(f"some.toml: {key}: ")


def test_whole_seconds_need_no_decimal_point() -> None:
    assert load("flush_seconds = 2").flush_seconds == 2.0


def test_a_bad_value_names_the_variable_or_option_it_came_from() -> None:
    message = complaint(environment={"ROUTELOG_PORT": "http"})
    assert message.startswith("environment: ROUTELOG_PORT: ")
    assert complaint(options={"log_level": "loud"}).startswith("command line: --log-level: ")


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    message = complaint(file_text="heartbeat_second = 5")
    assert message == (
        "some.toml: heartbeat_second: there is no such key; did you mean heartbeat_seconds?"
    )
    assert "ROUTELOG_PROT: there is no such key" in complaint(environment={"ROUTELOG_PROT": "1"})
    assert "listeners: there is no such key" in complaint(file_text="[listeners]\nport = 1")


def test_variables_that_are_not_ours_are_not_looked_at() -> None:
    ours_elsewhere = ("ROUTELOG_PURE", "ROUTELOG_CONFIG", "ROUTELOG_TEST_URL", "ROUTELOG_INDEXES")
    environment = dict.fromkeys(("PORT", "ROUTELOGPORT", *ours_elsewhere), "1")
    assert load(environment=environment) == BrokerConfig()
    assert "there is no such key" in complaint(environment={"ROUTELOG_PURER": "1"})


@pytest.mark.parametrize("text", ["port", "port = 1\nport = 2", "= 1", "port = 1 2"])
def test_a_file_that_is_not_toml_is_named(text: str) -> None:
    assert complaint(file_text=text).startswith("some.toml: not TOML: ")


@pytest.mark.parametrize("key", ["default_password", "cluster_secret", "cluster_etcd_password"])
def test_a_password_is_neither_shown_nor_repeated_in_a_complaint(key: str) -> None:
    config = load(f'{key} = "s3cret"')
    assert getattr(config, key) == "s3cret"
    assert "s3cret" not in repr(config)
    assert "s3cret" not in complaint(file_text=f'{key} = ["s3cret"]')


def test_the_configuration_is_frozen() -> None:
    with pytest.raises(AttributeError):
        BrokerConfig().port = 1  # type: ignore[misc]


def test_the_example_file_changes_nothing_when_it_is_installed_whole() -> None:
    assert tomllib.loads(EXAMPLE.read_text()) == {}


def test_the_example_file_has_every_key_with_its_default_behind_a_mark() -> None:
    keys = tomllib.loads(MARKED.sub("", EXAMPLE.read_text()))
    assert set(keys) == set(BrokerConfig.__struct_fields__)
    assert load(MARKED.sub("", EXAMPLE.read_text())) == BrokerConfig()


def test_the_page_has_the_keys_and_defaults_of_the_example_file_in_its_order() -> None:
    page = [
        (key, tomllib.loads(f"_ = {value}")["_"]) for key, value in ROW.findall(PAGE.read_text())
    ]
    assert page == list(tomllib.loads(MARKED.sub("", EXAMPLE.read_text())).items())


@pytest.mark.parametrize(
    "setting", ["tls_key=key.pem", "tls_authorities=authorities.pem", "tls_names=b.org=b.pem"]
)
def test_what_goes_with_a_certificate_is_refused_without_one(setting: str) -> None:
    key = setting.partition("=")[0]
    with pytest.raises(ConfigurationError, match=f"^{key}: without `tls_certificate`"):
        load_configuration(environment={}, options={}, settings=(setting,))
    load_configuration(environment={}, options={}, settings=(setting, "tls_certificate=a.pem"))


@pytest.mark.parametrize("setting", ["default_durability=mirrored", "on_leader=/bin/true,x"])
def test_what_goes_with_a_cluster_needs_one(setting: str) -> None:
    assert "`cluster_nodes`" in complaint(settings=(setting,))
    load(settings=(setting, "cluster_nodes=a@a=10.0.0.1:25672"))


@pytest.mark.parametrize("seconds", ["0", "0.9", "3601", "soon"])
def test_confirms_are_waited_for_at_least_a_second(seconds: str) -> None:
    assert "cluster_confirm_seconds" in complaint(settings=(f"cluster_confirm_seconds={seconds}",))


@pytest.mark.parametrize(
    "settings",
    [
        ("default_user=admin",),
        ("default_user=admin", "default_password=guest"),
        ("default_user=admin", "loopback_users="),
        ("default_user=admin", "loopback_users=guest,probe"),
    ],
)
def test_a_first_user_of_everywhere_needs_a_password(settings: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="'admin' needs a password: set ROUTELOG_DEF"):
        check_default_user(load(settings=settings))


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("loopback_users=",),
        ("default_user=admin", "default_password=other"),
        ("default_user=admin", "loopback_users=admin"),
        ("default_user=admin", "definitions_file=users.json"),
    ],
)
def test_a_first_user_who_has_to_be_local_needs_none(settings: tuple[str, ...]) -> None:
    check_default_user(load(settings=settings))


def test_the_built_in_password_has_to_be_local_unless_users_are_named() -> None:
    rule = load().loopback_rule
    assert not rule.allows("admin", "192.0.2.7", b"guest")
    assert rule.allows("admin", "192.0.2.7", b"other")
    assert not rule.allows("guest", "192.0.2.7", b"other")
    named = load(settings=("loopback_users=guest,probe",)).loopback_rule
    assert named.allows("admin", "192.0.2.7", b"guest")
    assert not named.allows("probe", "192.0.2.7", b"other")


@pytest.mark.parametrize(
    ("wanted", "host", "name"),
    [
        ("routelog", "mq1", "routelog@mq1"),
        ("rabbit", "mq1.example.com", "rabbit@mq1"),
        ("rabbit@elsewhere.example.com", "mq1", "rabbit@elsewhere.example.com"),
    ],
)
def test_a_node_without_a_host_in_its_name_is_named_after_this_one(
    wanted: str, host: str, name: str
) -> None:
    assert node_name(wanted, host) == name
