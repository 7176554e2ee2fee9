"""The command line: it loads the module of a command when that command is called."""

import errno
import gc
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

EXIT_FAILED = 1
NODES = (["serve"], ["follow"])  # the commands that run one
# What typer raises for wrong usage and for a file that it cannot open. Some of its releases have the classes of
# click, others have their own.
_CommandError: Any = typer.BadParameter.__mro__[2]


class LazyGroup(TyperGroup):
    """A group of commands that are loaded when they are called.

    Attributes:
        places: module and name of each command or group, in the order of the help; or the group itself.
    """

    places: ClassVar[Mapping[str, str | typer.Typer]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        not_loaded: Any = None
        self.commands = dict.fromkeys(self.places, not_loaded)  # names, for "did you mean"

    def list_commands(self, ctx: Any) -> list[str]:
        """The names that the help shows."""
        return [*self.places]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None when there is none."""
        found: Any = self.places.get(cmd_name)
        if isinstance(found, str):
            module, _, name = found.partition(":")
            found = getattr(_loaded(f"routelog.{module}"), name)
        return _as_command(cmd_name, found)


def _loaded(module: str) -> ModuleType:
    """Import without looking for garbage: what is loaded stays, and looks at it are a fifth of the time."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()


def _as_command(name: str, found: Any) -> Any:
    if found is None:
        return None
    if isinstance(found, typer.Typer):
        return get_group(found)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return get_command(alone)


class _Log(LazyGroup):
    places: ClassVar = {
        "dump": "broker.process.log_commands:dump",
        "verify": "broker.process.log_commands:verify",
        "repair": "broker.process.log_commands:repair",
        "tail": "management.commands.log_command:tail_log",
    }


class _Backup(LazyGroup):
    places: ClassVar = {
        "create": "management.commands.backup_request:create",
        "list": "management.commands.backup_commands:list_backups",
        "verify": "management.commands.backup_commands:verify",
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`routelog backup TARGET` is `routelog backup create TARGET`."""
        if args and args[0] not in {*self.places, "--help"}:
            args = ["create", *args]
        return super().parse_args(ctx, args)


class _CommandLine(LazyGroup):
    places: ClassVar = {
        "serve": "node_commands:serve",
        "follow": "node_commands:follow",
        "promote": "node_commands:promote",
        "status": "management.commands.status_command:status",
        "top": "management.commands.top_command:top",
        "list": "management.commands.commands:list_things",
        "restore": "management.commands.backup_commands:restore",
        "log": typer.Typer(
            name="log",
            cls=_Log,
            help="Look into, verify or repair the log of a stopped broker; follow what a running one tells.",
            no_args_is_help=True,
        ),
        "perf": "benchmarks.perf.perf:perf_commands",
        "export": "spark_bridge.lakes.export_commands:export_commands",
        "index": "spark_bridge.index.index_commands:index_commands",
        "cluster": "node_commands:cluster",
        "connection": "management.commands.commands:connections",
        "queue": "management.commands.message_commands:queue",
        "exchange": "management.commands.queue_commands:exchange",
        "user": "management.commands.commands:users",
        "permission": "management.commands.commands:permissions",
        "topic-permission": "management.commands.commands:topic_permissions",
        "vhost": "management.commands.commands:vhosts",
        "limit": "management.commands.limit_commands:limits",
        "policy": "management.commands.commands:policies",
        "definitions": "management.commands.commands:definitions",
        "backup": typer.Typer(
            name="backup",
            cls=_Backup,
            help="Back up the running broker into a folder or bucket: routelog backup TARGET.",
            no_args_is_help=True,
        ),
        "delayed": "management.commands.delayed_commands:delayed",
        "reader": "management.commands.reader_commands:reader",
        "trace": "management.commands.commands:firehose",
    }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, which may be one of rabbitmqctl; None when there is none."""
        if cmd_name in self.places:
            return super().get_command(ctx, cmd_name)
        from routelog.management.commands.rabbitmqctl_names import NAMES

        return _as_command(cmd_name, NAMES.get(cmd_name))

    def main(self, *given: Any, **settings: Any) -> Any:
        """Run a command, and exit: wrong usage is one line on stderr, and one with the usage."""
        settings |= {"prog_name": "routelog", "standalone_mode": False}
        try:
            code = super().main(*given, **settings)
        except _CommandError as error:
            _complain_of_usage(error)
            code = error.exit_code
        except typer.Abort:  # somebody ended the input at a prompt
            _complain("aborted")
            code = EXIT_FAILED
        sys.exit(code or 0)


def _complain_of_usage(error: Any) -> None:
    reason = error.format_message().removeprefix("Invalid value: ").rstrip(".")
    if not reason:
        return  # a group without a command: its help is printed
    _complain(reason[0].lower() + reason[1:])
    if getattr(error, "ctx", None) is not None:
        usage = " ".join(error.ctx.get_usage().split()).removeprefix("Usage: ")
        typer.echo(f"usage: {usage} (--help says more)", err=True)


def _complain(reason: str) -> None:
    from routelog.management.commands.terminal import complain

    complain(reason)


# Tracebacks with local variables would show passwords.
command_line = typer.Typer(
    name="routelog", cls=_CommandLine, no_args_is_help=True, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"routelog {version('routelog-broker')}")
        raise typer.Exit


@command_line.callback()
def common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """RouteLog: an AMQP 0-9-1 broker whose queues are durable logs."""


def main() -> None:
    """The console script."""
    if sys.argv[1:2] in NODES:
        # Until a node can read its certificates again, SIGHUP would end it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command_line()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _complain(error.strerror or str(error))  # what a command prints or writes finds no room
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
