"""`routelog cluster`: who leads, who has everything, who is alive; and what an operator can have done."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table

from routelog.log_backend import SystemClock
from routelog.mirror_cluster.commands.cluster_status import cluster_status
from routelog.mirror_cluster.commands.goals import (
    DrainGoal,
    Goal,
    InitGoal,
    JoinGoal,
    LeaveGoal,
    RecoverGoal,
    RepairGoal,
    TransferGoal,
)
from routelog.mirror_cluster.commands.pursuit import READ_SECONDS, Pursuit
from routelog.mirror_cluster.commands.reported_status import ask_nodes, reported_status
from routelog.mirror_cluster.commands.verification import Progress, verify
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.coordination.managed_etcd import remove_member
from routelog.mirror_cluster.coordination.refused_record import refusing
from routelog.mirror_cluster.links.node_report import NodeReport
from routelog.mirror_cluster.node.cluster_options import ClusterOptions, open_coordinator
from routelog.mirror_cluster.protocol.shard_record import SHARD

_T = TypeVar("_T")

EXIT_NOT_WELL = 1
EXIT_NOT_REACHABLE = 2  # what wrong usage of the command line exits with, too

ConfigOption = Annotated[
    Path | None,
    typer.Option(help="Configuration file; ./routelog.toml is read when it is there."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=1.0, max=3_600.0, help="Seconds to wait for it.")
]
# The table of nodes says who is in sync.
_SHARD_COLUMNS = ("leader", "led", "epoch", "unclean", "min_in_sync", "since")
WIDTH = 240  # of a table that goes into a file or a pipe
BAR_SECONDS = 2.0
SETTLE_SECONDS = (
    2.0  # a node reads the record each 0.3 s, and says what it makes of it within 0.5 s
)
TIMEOUT_SECONDS = 30.0  # a leader that hands over starts again, and its etcd with it


def cluster_commands(load: Callable[[Path | None], ClusterOptions]) -> typer.Typer:
    """The commands.

    Args:
        load: reads the cluster's options from a configuration file, or that of the working directory.
    """
    commands = typer.Typer(
        name="cluster",
        help="Look at a cluster, and hand its leadership over.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @commands.command()
    def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
        """Say who leads, who has everything, who is alive: exit code 1 while something is missing.

        Where etcd does not answer, each node says what it knows.
        """
        options = load(config)
        told = asyncio.run(_status(options))
        if as_json:
            typer.echo(msgspec.json.encode(told).decode())
        else:
            _show(told["nodes"])
            _show([{each: row[each] for each in _SHARD_COLUMNS} for row in told["shards"]])
            typer.echo(told["summary"])
        if not told["is_well"]:
            raise typer.Exit(EXIT_NOT_WELL)

    @commands.command(name="verify")
    def compare(config: ConfigOption = None, as_json: JsonOption = False) -> None:
        """Compare what all nodes have: exit code 1 where they differ, 2 where not all were compared."""
        options = load(config)
        with _bar() as progress:
            found = asyncio.run(verify(options, progress))
        if as_json:
            typer.echo(msgspec.json.encode(found).decode())
        else:
            _show([msgspec.structs.asdict(each) for each in found.nodes])
            for each in found.differences:
                typer.echo(each.told())
            typer.echo(found.summary)
        if found.count:
            raise typer.Exit(EXIT_NOT_WELL)
        if not found.complete:
            raise typer.Exit(EXIT_NOT_REACHABLE)

    @commands.command()
    def transfer(
        to: Annotated[str, typer.Option("--to", metavar="NODE", help="Who is to lead.")] = "",
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Have another node lead: clients are closed with 320, and nothing confirmed is lost."""
        options = _with_node(load(config), to)
        _pursue(options, lambda view: TransferGoal(view, to), timeout, as_json)

    @commands.command()
    def drain(
        node: Annotated[str, typer.Argument(metavar="NODE")],
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Make a node ready to be stopped: it leads nothing, and no confirm waits for it.

        It takes part again when it is started again.
        """
        options = _with_node(load(config), node)
        _pursue(options, lambda view: DrainGoal(view, node, options.min_in_sync), timeout, as_json)

    @commands.command()
    def repair(
        node: Annotated[str, typer.Argument(metavar="NODE")],
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Have a node whose data are damaged give them up, and take a copy of the leader's.

        One that leads hands over first. The node is in sync when it has caught up.
        """
        options = _with_node(load(config), node)
        _pursue(options, lambda view: RepairGoal(view, node, options.min_in_sync), timeout, as_json)

    @commands.command()
    def join(
        node: Annotated[str, typer.Argument(metavar="NODE")],
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Give a node that runs a copy of everything: it is in sync when it has caught up."""
        options = _with_node(load(config), node)
        _pursue(options, lambda view: JoinGoal(view, node), timeout, as_json)

    def leave(
        node: Annotated[str, typer.Argument(metavar="NODE")],
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Take a node out, alive or not: it has no copy, and comes back only when it joins again."""
        options = _with_node(load(config), node)
        _pursue(
            options,
            lambda view: LeaveGoal(view, node, options.min_in_sync),
            timeout,
            as_json,
            lambda: _leave_etcd(options, node, timeout),
        )

    commands.command("leave")(leave)
    commands.command("forget_cluster_node", hidden=True, help="RabbitMQ's word for leave.")(leave)

    @commands.command()
    def init(
        node: Annotated[str, typer.Option("--from", metavar="NODE", help="Whose data count.")],
        accept_loss: Annotated[
            bool,
            typer.Option(
                "--accept-loss",
                help="What nodes that are not alive, or lost their disk, had is lost.",
            ),
        ] = False,
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Begin a cluster whose nodes have different data, or refuse what etcd has, with one of them."""
        options = _with_node(load(config), node)
        _pursue(
            options,
            lambda view: InitGoal(
                view, node, options.addresses, options.min_in_sync, accepts_loss=accept_loss
            ),
            timeout,
            as_json,
            settles=True,
        )

    @commands.command()
    def recover(
        node: Annotated[str, typer.Argument(metavar="NODE")],
        accept_loss: Annotated[
            bool, typer.Option("--accept-loss", help="What this node does not have is lost.")
        ] = False,
        config: ConfigOption = None,
        timeout: TimeoutOption = TIMEOUT_SECONDS,
        as_json: JsonOption = False,
    ) -> None:
        """Have a node lead that may lack confirmed messages, as no other one comes back."""
        options = _with_node(load(config), node)
        if not accept_loss:
            _fail(f"--accept-loss: confirmed messages that {node} does not have would be lost")
        _pursue(options, lambda view: RecoverGoal(view, node), timeout, as_json)

    return commands


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar, where somebody watches and it takes longer than BAR_SECONDS."""
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = ProgressBar(*columns, console=console, transient=True)
    task, begun = bar.add_task("verify", total=None), bar.get_time()

    def progress(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total or None)
        if bar.get_time() - begun > BAR_SECONDS and console.is_terminal:
            bar.start()

    try:
        yield progress
    finally:
        bar.stop()


def _with_node(options: ClusterOptions, node: str) -> ClusterOptions:
    if node and node not in options.addresses:
        _fail(f"no node '{node}'; there are {', '.join(options.addresses)}", EXIT_NOT_REACHABLE)
    return options


def _fail(text: str, code: int = EXIT_NOT_WELL) -> NoReturn:
    typer.echo(f"routelog: {text}", err=True)
    raise typer.Exit(code)


def _asked(asking: Coroutine[Any, Any, _T]) -> _T:
    try:
        return asyncio.run(asking)
    except (CoordinatorUnavailable, CoordinatorRefused) as error:
        _fail(f"etcd: {error}", EXIT_NOT_REACHABLE)


async def _read(options: ClusterOptions) -> ClusterView:
    async with aclosing(open_coordinator(options)) as coordinator:
        return await coordinator.read()


async def _status(options: ClusterOptions) -> dict[str, Any]:
    try:
        return cluster_status(options, await _read(options))
    except (CoordinatorUnavailable, CoordinatorRefused) as error:
        answers = await ask_nodes(options)
        if not any(isinstance(each, NodeReport) for each in answers.values()):
            _fail(f"etcd: {error}; no node answers either", EXIT_NOT_REACHABLE)
        return reported_status(options, answers, str(error))


async def _nothing_more() -> str:
    return ""


def _pursue(
    options: ClusterOptions,
    goal_of: Callable[[ClusterView], Goal],
    seconds: float,
    as_json: bool,
    then: Callable[[], Coroutine[Any, Any, str]] = _nothing_more,
    *,
    settles: bool = False,
) -> None:
    view, problem = _asked(_reach(options, goal_of, seconds, settles=settles))
    problem = problem or _asked(then())
    told = cluster_status(options, view)
    if as_json:
        done = {"done": not problem, "reason": problem}
        typer.echo(msgspec.json.encode(done | told).decode())
    elif not problem:
        typer.echo("".join(f"{record.told()}\n" for record in view.records.values()), nl=False)
    if problem:
        _fail(problem)


async def _reach(
    options: ClusterOptions,
    goal_of: Callable[[ClusterView], Goal],
    seconds: float,
    *,
    settles: bool,
) -> tuple[ClusterView, str]:
    """What the coordinator holds in the end, and why the goal is not reached.

    Args:
        settles: the goal depends on what nodes tell of themselves: each has told what it refuses by then.
    """
    async with aclosing(open_coordinator(options)) as coordinator:
        view = await coordinator.read()
        if settles and refusing(view.notes(SHARD)):
            await asyncio.sleep(SETTLE_SECONDS)
            view = await coordinator.read()
        goal = goal_of(view)
        if goal.is_reached(view, ()):
            return view, ""
        refusal = goal.refusal()
        if refusal:
            return view, refusal
        pursuit = Pursuit(coordinator, goal, view, seconds, SystemClock(), options.lease_seconds)
        problem = await pursuit.run()
        return pursuit.view, problem


async def _leave_etcd(options: ClusterOptions, node: str, seconds: float) -> str:
    """Take a node's member out of a managed etcd; returns why that was not possible."""
    if not options.is_managed:
        return ""
    own = list(options.addresses).index(node)
    others = [url for url in options.etcd if url != options.etcd[own]]
    gateway = EtcdGateway(EtcdEndpoints(others, tls=options.etcd_tls))
    problem = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    await remove_member(options.etcd_peers[own], gateway)
                except (CoordinatorUnavailable, CoordinatorRefused) as error:
                    problem = str(error)  # such as for 5 s after a change of members
                    await asyncio.sleep(READ_SECONDS)
                else:
                    return ""
    except TimeoutError:
        return f"{node} has no copy any more, and is still a member of etcd: {problem}"
    finally:
        await gateway.aclose()


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        typer.echo("no shards: nobody has made the cluster")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    # Nothing is folded where nobody watches.
    width = None if sys.stdout.isatty() else WIDTH
    Console(markup=False, highlight=False, width=width).print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
