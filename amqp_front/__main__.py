"""The composition root and command line: `routelog serve`, `log`, `perf` and `version`."""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from amqp_front.broker import BrokerAddress, StartError, run
from amqp_front.configuration import BrokerConfig, ConfigurationError, load_configuration
from amqp_front.log_commands import log_commands
from amqp_front.logs import escape_control, set_up_logs
from amqp_front.open_files import raise_open_files_limit
from amqp_front.service_manager import ServiceManager
from benchmarks.perf import perf_commands
from mirror_cluster import claim_epoch

EXIT_START_FAILED = 1
EXIT_CONFIGURATION = 2  # what wrong usage of the command line exits with, too

CONFIGURATION_FILE = "routelog.toml"

# Tracebacks with local variables would show passwords.
command_line = typer.Typer(
    name="routelog",
    help="RouteLog: an AMQP 0-9-1 broker whose queues are durable logs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
command_line.add_typer(log_commands)
command_line.add_typer(perf_commands)


@command_line.command()
def serve(
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file; ./routelog.toml is read when it is there."),
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Directory of everything kept.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[str | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Options beat environment variables (ROUTELOG_PORT, ...), which beat the file.
    """
    options = {"data_dir": data_dir, "host": host, "port": port, "log_level": log_level}
    try:
        configuration = _configuration(config, os.environ, options)
    except ConfigurationError as error:
        _complain(error)
        raise typer.Exit(EXIT_CONFIGURATION) from None
    set_up_logs(configuration.log_level, configuration.log_format)
    raise_open_files_limit()
    _run(configuration, ServiceManager.from_environment(os.environ))


@command_line.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"routelog {distribution_version('routelog')}")


def main() -> None:
    """The console script."""
    command_line()


def ready_line(address: BrokerAddress, process_id: int) -> str:
    """What `serve` prints once connections are accepted; scripts wait for it and parse it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    data_dir = escape_control(str(address.data_dir))
    return f"routelog ready amqp://{host}:{address.port} data={data_dir} pid={process_id}"


def _configuration(
    chosen_file: Path | None, environment: Mapping[str, str], options: Mapping[str, object]
) -> BrokerConfig:
    named = chosen_file or environment.get("ROUTELOG_CONFIG")
    file = Path(named or CONFIGURATION_FILE)
    return load_configuration(
        file_name=str(file),
        file_text=_file_text(file, required=bool(named)),
        environment=environment,
        options=options,
    )


def _file_text(file: Path, *, required: bool) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not required:
            return ""
        raise ConfigurationError(f"{file}: there is no such file") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: not TOML: not UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None


def _run(configuration: BrokerConfig, service_manager: ServiceManager) -> None:
    def on_ready(address: BrokerAddress) -> None:
        typer.echo(ready_line(address, os.getpid()))
        sys.stdout.flush()
        service_manager.ready()

    try:
        run(configuration, on_ready, claim_epoch)
        service_manager.stopping()
    except StartError as error:
        _complain(error)
        raise typer.Exit(EXIT_START_FAILED) from None


def _complain(error: Exception) -> None:
    """One line on stderr, in colour where somebody watches."""
    line = Text("routelog: ", style="bold red") + Text(escape_control(str(error)), style="default")
    Console(stderr=True).print(line, soft_wrap=True)


if __name__ == "__main__":
    main()
