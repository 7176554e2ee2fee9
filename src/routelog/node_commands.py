"""`routelog serve`, `follow` and `promote`, which run a node of this machine, and `routelog cluster`."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from routelog.broker.listeners.listening_sockets import CannotListen, ListeningSockets
from routelog.broker.listeners.shared_page import SharedPage
from routelog.broker.listeners.tls import warn_of_readers
from routelog.broker.node.configuration import (
    BrokerConfig,
    ConfigurationError,
    check_default_user,
    load_configuration,
    node_name,
)
from routelog.broker.process.broker import BrokerAddress
from routelog.broker.process.data_directory import (
    START_FAULTS,
    DefinitionsFile,
    StartError,
    bad_definitions,
    given_definitions,
    in_words,
    usable,
)
from routelog.broker.process.logs import escape_control, name_process, set_up_logs
from routelog.broker.process.memory_allocator import give_large_blocks_back
from routelog.broker.process.open_files import (
    make_room_for_open_files,
    open_files_limit,
    raise_open_files_limit,
)
from routelog.broker.process.process_share import process_share
from routelog.broker.process.processes import Processes, ProcessPlace
from routelog.broker.process.service_manager import ServiceManager
from routelog.broker.process.standby import run_standby
from routelog.broker.sessions.process_door import PATH_BYTES_MAX, door_path
from routelog.composition import Composition
from routelog.log_backend import (
    DirectoryLocked,
    LogStore,
    NoDataDirectory,
    SystemClock,
    SystemDisk,
    keep_private,
)
from routelog.management.commands.terminal import complain
from routelog.metrics_door import load_metrics_door
from routelog.mirror_cluster import (
    BadClusterOption,
    CannotJoin,
    ClusterOptions,
    NoStandby,
    StandbyNode,
    StandbyOptions,
    cluster_options,
    follow_options,
    is_standby,
    listen_options,
)
from routelog.mirror_cluster import promote as promote_standby
from routelog.mirror_cluster.commands.cluster_commands import cluster_commands
from routelog.operators_door import load_door
from routelog.vhosts import InvalidDefinition

log = logging.getLogger(__name__)

EXIT_START_FAILED = 1
EXIT_CONFIGURATION = 2  # what wrong usage of the command line exits with, too

CONFIGURATION_FILE = "routelog.toml"

ConfigFile = Annotated[
    Path | None,
    typer.Option(help="Configuration file; ./routelog.toml is read when it is there."),
]
DataDir = Annotated[str | None, typer.Option(help="Directory of everything kept.")]


@contextmanager
def _failing_in_words() -> Iterator[None]:
    """What cannot be is one line on stderr and an exit code."""
    try:
        yield
    except (ConfigurationError, BadClusterOption) as error:
        _complain(error)
        raise typer.Exit(EXIT_CONFIGURATION) from None
    except (StartError, CannotJoin) as error:
        _complain(error)
        raise typer.Exit(EXIT_START_FAILED) from None


@_failing_in_words()
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[str | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    management_port: Annotated[
        str | None, typer.Option(help="Port of the HTTP API; 0 takes a free one.")
    ] = None,
    processes: Annotated[
        str | None, typer.Option(help="Processes that serve clients, on one port.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of the file; repeatable."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Options beat environment variables (ROUTELOG_PORT, ...), which beat the file.
    """
    options = {
        "data_dir": data_dir,
        "host": host,
        "port": port,
        "management_port": management_port,
        "processes": processes,
        "log_level": log_level,
    }
    configuration = _configuration(config, options, settings or ())
    check_default_user(configuration)
    cluster = _cluster_options(configuration)
    standbys = listen_options(configuration)
    _set_up(configuration, config)
    _refuse_standby(configuration)
    service_manager = ServiceManager.from_environment(os.environ)
    if configuration.processes > 1:
        raise typer.Exit(_run_processes(configuration, standbys, service_manager))
    _run(configuration, cluster, standbys, service_manager)


@_failing_in_words()
def follow(
    address: Annotated[str, typer.Argument(help="HOST:PORT, the node's `standby_listen`.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Keep a copy of a running node, as its warm standby, until SIGTERM or SIGINT."""
    configuration = _configuration(config, {"data_dir": data_dir})
    options = follow_options(configuration, address)
    _set_up(configuration, config)
    service_manager = ServiceManager.from_environment(os.environ)
    data, disk = configuration.data_dir, SystemDisk()

    def make(logs: LogStore) -> StandbyNode:
        name = node_name(configuration.node_name, socket.gethostname())
        return StandbyNode(options, name, logs, data, disk, SystemClock())

    def on_ready() -> None:
        shown = escape_control(str(data))
        typer.echo(f"routelog standby ready: follows {address} data={shown} pid={os.getpid()}")
        sys.stdout.flush()
        service_manager.ready()

    run_standby(configuration, make, on_ready, partial(_end, service_manager))


@_failing_in_words()
def promote(
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Make a standby's data directory a node's: the next `routelog serve` takes clients there."""
    data = _configuration(config, {"data_dir": data_dir}).data_dir
    try:
        end = promote_standby(data, SystemDisk())
    except DirectoryLocked as error:
        raise StartError(f"{error}: stop 'routelog follow' first") from None
    except (NoStandby, NoDataDirectory, *START_FAULTS) as error:
        raise StartError(in_words(error)) from None
    typer.echo(
        f"{data} is a node's: its journal ends at position {end.position}, epoch {end.epoch}"
    )
    typer.echo("The node that it followed must not come back: both would take clients.")


def _refuse_standby(configuration: BrokerConfig) -> None:
    data = configuration.data_dir
    with usable(configuration):  # or it is no directory, or somebody else's
        follows = is_standby(data, SystemDisk())
    if follows:
        raise StartError(f"{data} is a standby's: 'routelog promote' it first")


def _set_up(configuration: BrokerConfig, chosen_file: Path | None) -> None:
    set_up_logs(configuration.log_level, configuration.log_format)
    file, _ = _configuration_file(chosen_file)
    log.info(
        "RouteLog %s starts: configuration file %s, data directory %s, process %d",
        distribution_version("routelog-broker"),
        file.absolute() if file.exists() else "none",
        configuration.data_dir.absolute(),
        os.getpid(),
    )
    if configuration.cluster_tls_key:
        warn_of_readers([Path(configuration.cluster_tls_key)])
    make_room_for_open_files(raise_open_files_limit())
    give_large_blocks_back()


def ready_line(address: BrokerAddress, process_id: int) -> str:
    """What `serve` prints once connections are accepted; scripts wait for it and parse it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    data_dir = escape_control(str(address.data_dir))
    return f"routelog ready amqp://{host}:{address.port} data={data_dir} pid={process_id}"


def _configuration(
    chosen_file: Path | None, options: Mapping[str, object], settings: Sequence[str] = ()
) -> BrokerConfig:
    file, required = _configuration_file(chosen_file)
    return load_configuration(
        file_name=str(file),
        file_text=_file_text(file, required=required),
        environment=os.environ,
        options=options,
        settings=settings,
    )


def _cluster_options(configuration: BrokerConfig) -> ClusterOptions | None:
    return cluster_options(configuration, node_name(configuration.node_name, socket.gethostname()))


@_failing_in_words()
def _cluster_of(config: Path | None) -> ClusterOptions:
    """The cluster that the configuration tells of; exits when there is none."""
    options = _cluster_options(_configuration(config, {}))
    if options is None:
        raise ConfigurationError("cluster_nodes: there is no cluster")
    return options


def _configuration_file(chosen_file: Path | None) -> tuple[Path, bool]:
    # And whether it must be there.
    named = chosen_file or os.environ.get("ROUTELOG_CONFIG")
    return Path(named or CONFIGURATION_FILE), bool(named)


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


def _definitions(configuration: BrokerConfig, *, is_member: bool) -> DefinitionsFile | None:
    """Check the file of definitions, before anything is opened; it is read again when it is imported.

    A pipe has its content once.
    """
    file = configuration.definitions_file
    if not file:
        return None

    def read() -> bytes:
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise StartError(f"definitions {file}: cannot be read: {error.strerror}") from None

    content = read()
    definitions = given_definitions(configuration, content)
    try:
        if is_member:
            definitions.problems.check()  # a new leader does not end for them
    except InvalidDefinition as error:
        raise bad_definitions(file, error) from None
    return read if Path(file).is_file() else lambda: content


def _run(
    configuration: BrokerConfig,
    cluster: ClusterOptions | None,
    standbys: StandbyOptions | None,
    service_manager: ServiceManager,
) -> None:
    def on_ready(address: BrokerAddress) -> None:
        typer.echo(ready_line(address, os.getpid()))
        sys.stdout.flush()
        service_manager.ready()

    node = Composition(configuration, cluster, standbys)
    definitions = _definitions(configuration, is_member=cluster is not None)
    node.run(on_ready, definitions, partial(_end, service_manager))
    service_manager.stopping()


def _run_processes(
    configuration: BrokerConfig, standbys: StandbyOptions | None, service_manager: ServiceManager
) -> int:
    """Be the parent of the processes of this node; returns the exit status."""
    path = door_path(configuration.data_dir)
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise StartError(f"{path}: more than {PATH_BYTES_MAX} bytes, too many for a Unix socket")
    definitions = _definitions(configuration, is_member=False)
    umask = keep_private()
    try:
        sockets = ListeningSockets.bind(configuration, 0o777 & ~umask)
    except CannotListen as error:
        raise StartError(str(error)) from None
    # Once, for all processes, and those that come in their place.
    load_door(configuration)
    load_metrics_door(configuration)

    def serve_as(place: ProcessPlace) -> int:
        make_room_for_open_files(open_files_limit())
        try:
            _serve_as(place, process_share(configuration), standbys, definitions)
        except typer.Exit as ended:
            return ended.exit_code
        return 0

    def on_ready() -> None:
        address = BrokerAddress(*sockets.address, configuration.data_dir)
        typer.echo(ready_line(address, os.getpid()))
        sys.stdout.flush()
        service_manager.ready()

    page = SharedPage(configuration.processes)
    parent = Processes(page, sockets, serve_as, on_ready, service_manager.stopping, SystemClock())
    return parent.run()


@_failing_in_words()
def _serve_as(
    place: ProcessPlace,
    configuration: BrokerConfig,
    standbys: StandbyOptions | None,
    definitions: DefinitionsFile | None,
) -> None:
    name_process(place.number)
    node = Composition(configuration, None, standbys if place.leads else None, place)

    def on_ready(_: BrokerAddress) -> None:
        place.page.ready(place.number)

    def on_end(_: str) -> NoReturn:
        raise AssertionError("only a node of a cluster ends so")

    node.run(on_ready, definitions if place.leads else None, on_end)


def _end(service_manager: ServiceManager, reason: str) -> NoReturn:
    """End the process at once, as a crash would; start it again when there is a reason for that."""
    sys.stdout.flush()
    logging.shutdown()
    if reason:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it lasts, unlike a handler
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    service_manager.stopping()
    os._exit(0)


def _complain(error: Exception) -> None:
    for reason in error.reasons if isinstance(error, StartError) else (str(error),):
        complain(reason)


cluster = cluster_commands(_cluster_of)
