"""docs/deploy/routelog.service: it starts what there is, and asks of the broker what the broker does."""

import os
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import routelog.node_commands as command
from routelog import composition
from routelog.__main__ import command_line
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.open_files import FILES_WANTED

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "docs" / "deploy" / "routelog.service"


@pytest.fixture
def service() -> dict[str, str]:
    """The keys of the unit's section [Service]."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(UNIT.read_text())
    return dict(parser["Service"])


def test_its_command_is_one_that_the_command_line_takes(
    service: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in [name for name in os.environ if name.startswith("ROUTELOG_")]:
        monkeypatch.delenv(variable)
    (tmp_path / "routelog.toml").write_text("port = 4711")
    configurations: list[BrokerConfig] = []
    monkeypatch.setattr(composition, "run", lambda make, *_, **__: make())
    monkeypatch.setattr(composition, "Broker", lambda config, *_: configurations.append(config))
    monkeypatch.setattr(command, "set_up_logs", lambda level, form: None)
    words = service["ExecStart"].replace("/etc/routelog", str(tmp_path)).replace("%S", "/var/lib")
    program, *arguments = words.split()
    assert Path(program).name == "routelog"
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 0, result.output
    (config,) = configurations
    assert (config.port, config.data_dir) == (4711, Path("/var/lib/routelog"))


def test_it_says_what_the_broker_does(service: dict[str, str]) -> None:
    assert service["Type"] == "notify"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["RestartPreventExitStatus"] == str(command.EXIT_CONFIGURATION)
    assert service["LimitNOFILE"] == str(FILES_WANTED)


def test_there_is_one_unit_only() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if "[Service]" in page.read_text()] == []
