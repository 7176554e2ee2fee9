"""The ready line, exit codes, and where the configuration is looked for."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import routelog.node_commands as command
from routelog import composition
from routelog.__main__ import command_line
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.broker import BrokerAddress
from routelog.broker.process.data_directory import DefinitionsFile, StartError
from routelog.broker.process.service_manager import ServiceManager

OnReady = Callable[[BrokerAddress], None]


class FakeBroker:
    """Stands in for a broker and its `run`: keeps the configuration, reports an address or fails."""

    def __init__(self) -> None:
        self.config: BrokerConfig | None = None
        self.definitions: DefinitionsFile | None = None
        self.failure: StartError | None = None

    def make(
        self, config: BrokerConfig, front: object, definitions: DefinitionsFile | None
    ) -> BrokerAddress:
        self.config = config
        self.definitions = definitions
        return BrokerAddress(host=config.host, port=config.port, data_dir=config.data_dir)

    def run(self, make: Callable[[], BrokerAddress], on_ready: OnReady, **_: object) -> None:
        address = make()
        if self.failure:
            raise self.failure
        on_ready(address)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBroker:
    fake = FakeBroker()
    monkeypatch.setattr(composition, "Broker", fake.make)
    monkeypatch.setattr(composition, "run", fake.run)
    monkeypatch.setattr(command, "set_up_logs", lambda level, form: None)
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("ROUTELOG_")]:
        monkeypatch.delenv(variable)
    return fake


def serve(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(command_line, ["serve", *arguments], env=environment)


def test_the_ready_line_names_address_directory_and_process(broker: FakeBroker) -> None:
    result = serve("--host", "127.0.0.1", "--port", "4711", "--data-dir", "/srv/some data")
    line = f"routelog ready amqp://127.0.0.1:4711 data=/srv/some data pid={os.getpid()}\n"
    assert (result.exit_code, result.stdout) == (0, line)


def test_an_ipv6_address_is_bracketed_and_a_directory_cannot_break_the_line() -> None:
    line = command.ready_line(BrokerAddress(host="::1", port=1, data_dir=Path("a\nb")), 2)
    assert line == r"routelog ready amqp://[::1]:1 data=a\nb pid=2"


def test_options_beat_the_environment_which_beats_the_named_file(
    broker: FakeBroker, tmp_path: Path
) -> None:
    file = tmp_path / "some.toml"
    file.write_text('port = 1\nhost = "127.0.0.1"\nlog_level = "error"\n')
    result = serve(
        "--config", str(file), "--port", "3", ROUTELOG_PORT="2", ROUTELOG_LOG_LEVEL="debug"
    )
    assert result.exit_code == 0
    assert broker.config == BrokerConfig(host="127.0.0.1", port=3, log_level="debug")


def test_every_key_can_be_set_on_the_command_line(broker: FakeBroker) -> None:
    result = serve("--management-port", "4", "--set", "channel_max=5", "--set", "node_name=n@h")
    assert result.exit_code == 0
    assert broker.config == BrokerConfig(management_port=4, channel_max=5, node_name="n@h")


def test_the_file_of_the_working_directory_is_read_unless_another_is_named(
    broker: FakeBroker, tmp_path: Path
) -> None:
    (tmp_path / "routelog.toml").write_text("port = 1")
    (tmp_path / "other.toml").write_text("port = 2")
    serve()
    assert broker.config == BrokerConfig(port=1)
    serve(ROUTELOG_CONFIG="other.toml")
    assert broker.config == BrokerConfig(port=2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--config", "nope.toml"], "routelog: nope.toml: there is no such file\n"),
        (["--config", "."], "routelog: .: cannot be read: Is a directory\n"),
        (["--log-level", "loud"], "routelog: command line: --log-level: "),
        (["--port", "http"], "routelog: command line: --port: "),
        (["--management-port", "-1"], "routelog: command line: --management-port: "),
        (["--set", "prot=1"], "routelog: command line: --set prot: there is no such key"),
    ],
)
def test_a_configuration_error_is_one_line_and_exit_code_2(
    broker: FakeBroker, arguments: list[str], complaint: str
) -> None:
    result = serve(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1
    assert broker.config is None


def test_a_file_that_is_not_text_is_named(broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "routelog.toml").write_bytes(b"\xff")
    result = serve()
    assert result.exit_code == 2
    assert result.stderr == "routelog: routelog.toml: not TOML: not UTF-8\n"


def test_a_start_error_is_one_line_and_exit_code_1(broker: FakeBroker) -> None:
    broker.failure = StartError("127.0.0.1:5672: address already in use\n[sic]")
    result = serve()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "routelog: 127.0.0.1:5672: address already in use\\n[sic]\n"


def test_definitions_are_read_before_anything_is_opened(broker: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"vhosts": [{"name": "v"}]}')
    assert serve(ROUTELOG_DEFINITIONS_FILE=str(file)).exit_code == 0
    assert broker.definitions is not None
    assert broker.definitions() == file.read_bytes()
    file.write_text("[]")
    assert broker.definitions() == b"[]"  # as it is when it is imported
    file.unlink()
    with pytest.raises(StartError, match="cannot be read: No such file"):
        broker.definitions()
    broker.config = None
    file.write_bytes(b'{"\xff": 1}')
    assert "not JSON" in serve(ROUTELOG_DEFINITIONS_FILE=str(file)).stderr
    for content, reason in (("{", "not JSON: line 1, column 2: "), ("[]", "the document: ")):
        file.write_text(content)
        result = serve(ROUTELOG_DEFINITIONS_FILE=str(file))
        assert (result.exit_code, broker.config) == (1, None)
        assert result.stderr.startswith(f"routelog: definitions {file}: {reason}")
        assert result.stderr.count("\n") == 1


def test_definitions_of_a_pipe_are_read_once(broker: FakeBroker) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"vhosts": [{"name": "v"}]}')
    os.close(writing)
    assert serve(ROUTELOG_DEFINITIONS_FILE=f"/dev/fd/{reading}").exit_code == 0
    os.close(reading)
    assert broker.definitions is not None
    assert broker.definitions() == b'{"vhosts": [{"name": "v"}]}'


def test_a_node_of_a_cluster_reads_its_definitions_before_it_joins(
    broker: FakeBroker, tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"vhosts": [{}], "queues": [{}]}')
    result = serve(
        ROUTELOG_DEFINITIONS_FILE=str(file),
        ROUTELOG_NODE_NAME="a@x",
        ROUTELOG_CLUSTER_NODES="a@x=127.0.0.1:1,b@x=127.0.0.1:2",
        ROUTELOG_CLUSTER_SECRET="s" * 32,
        ROUTELOG_CLUSTER_ETCD="http://127.0.0.1:3",
    )
    assert (result.exit_code, broker.config) == (1, None)
    lines = result.stderr.splitlines()
    assert [line.partition("json: ")[2][:9] for line in lines] == ["vhosts[0]", "queues[0]"]


def test_a_node_that_starts_again_ignores_sighup_until_it_has_a_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Executed(Exception):
        """In the place of the process that comes."""

    def execv(*_: object) -> None:
        raise Executed(signal.getsignal(signal.SIGHUP))

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    before = signal.getsignal(signal.SIGHUP)
    try:
        with pytest.raises(Executed) as executed:
            command._end(ServiceManager.from_environment({}), "another node leads")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert executed.value.args == (signal.SIG_IGN,)
