from functools import cache

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result
from unit.management.commands.asked_broker import Broker, Run

from routelog.management.commands import broker_option
from routelog.management.commands.commands import operator_commands
from routelog.management.commands.rabbitmqctl_names import rabbitmqctl_names

# Made once: it takes longer than most tests of it.
COMMAND_LINE = typer.Typer()
operator_commands(COMMAND_LINE)
rabbitmqctl_names(COMMAND_LINE)
made = cache(get_command)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(broker_option, "local_api", lambda data_dir: None)
    monkeypatch.setattr(broker_option, "ManagementClient", lambda address: broker)
    return broker


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line."""
    monkeypatch.setattr("typer.testing._get_command", made)

    def run(*arguments: str, typed: str | bytes | None = None) -> Result:
        return CliRunner().invoke(COMMAND_LINE, list(arguments), input=typed)

    return run
