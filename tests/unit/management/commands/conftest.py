from functools import cache

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result
from unit.management.commands.asked_broker import Broker, Run

from routelog.__main__ import command_line
from routelog.management.commands import broker_option

made = cache(get_command)  # once: it takes longer than most tests of it


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
        return CliRunner().invoke(command_line, list(arguments), input=typed)

    return run
