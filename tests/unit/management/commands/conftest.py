import pytest
import typer
from typer.testing import CliRunner, Result
from unit.management.commands.asked_broker import Broker, Run

from routelog.management.commands import broker_option
from routelog.management.commands.commands import operator_commands
from routelog.management.commands.rabbitmqctl_names import rabbitmqctl_names


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(broker_option, "local_api", lambda data_dir: None)
    monkeypatch.setattr(broker_option, "ManagementClient", lambda address: broker)
    return broker


@pytest.fixture
def run(broker: Broker) -> Run:
    """Runs a command line."""
    command_line = typer.Typer()
    operator_commands(command_line)
    rabbitmqctl_names(command_line)

    def run(*arguments: str, typed: str | bytes | None = None) -> Result:
        return CliRunner().invoke(command_line, list(arguments), input=typed)

    return run
