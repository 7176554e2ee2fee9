"""`routelog backup` and `routelog restore`: copies of a running broker, and data directories made of them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from routelog.log_backend import (
    BackupDamaged,
    BackupTarget,
    BadBucket,
    BucketFailed,
    DataDirectory,
    Manifest,
    MetadataCorrupt,
    MetadataUnavailable,
    NoBackup,
    NotEmpty,
    Restore,
    SystemClock,
    SystemDisk,
    UnknownEntry,
    Verification,
    keep_private,
    open_bucket,
    open_metadata,
)
from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import AnswerRefused, ManagementClient
from routelog.management.commands.options import AsJson
from routelog.management.commands.terminal import EXIT_REFUSED, complaints, printable, show
from routelog.vhosts import partition_names

ASK_SECONDS = 0.5  # between two questions how far it is
COLUMNS = ("name", "time", "node", "position", "files", "bytes", "state")

Target = Annotated[
    str, typer.Argument(help="A folder, file:///folder, or s3://bucket/prefix?region=...")
]
Name = Annotated[str, typer.Option(help="Of the backup.")]


class _TakesTarget(TyperGroup):
    """`routelog backup TARGET` is `routelog backup create TARGET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click`."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["create", *args]
        return super().parse_args(ctx, args)


backup = typer.Typer(
    name="backup",
    cls=_TakesTarget,
    help="Back up the running broker into a folder or bucket: routelog backup TARGET.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@backup.command("create")
@with_broker
def create(
    broker: ManagementClient,
    target: Target,
    name: Annotated[str, typer.Option(help="Of the backup; else the time, in UTC.")] = "",
    as_json: AsJson = False,
) -> None:
    """Copy what the running broker has, without stopping it; only what the target lacks is copied.

    The broker writes the backup: a folder is one of its machine.
    """
    body = {"target": _address(target), "name": name}
    began = msgspec.json.decode(broker.ask("POST", "backup", body=body))
    try:
        state = _watched(broker, began)
    except KeyboardInterrupt:
        broker.ask("DELETE", "backup")
        raise
    if as_json:
        typer.echo(msgspec.json.encode(state).decode())
    elif state["state"] == "done":
        size, kept = state["bytes_total"], state["bytes_kept"]
        typer.echo(
            f"backup '{state['name']}': {state['files']} files, {size} bytes, {kept} of them there before; "
            f"everything durable up to position {state['position']}"
        )
    if state["state"] != "done":
        raise AnswerRefused(f"backup '{state['name']}' failed: {state['error']}")


def _watched(broker: ManagementClient, state: dict[str, Any]) -> dict[str, Any]:
    with _progress("backup", 0) as told:
        done = 0
        while state["state"] in ("taking", "copying"):
            SystemClock().pause(ASK_SECONDS)
            name = state["name"]
            state = broker.get("backup")
            if state["name"] != name:
                raise AnswerRefused(f"backup '{name}' ended, and another one has begun since")
            told(state["bytes_done"] - done, state["bytes_total"])
            done = state["bytes_done"]
    return state


@backup.command("list")
def list_backups(target: Target, as_json: AsJson = False) -> None:
    """List the backups in a target."""
    with _opened(target) as kept:
        show([_row(kept, name) for name in kept.names()], COLUMNS, as_json=as_json)


def _row(kept: BackupTarget, name: str) -> dict[str, Any]:
    try:
        manifest = kept.manifest(name)
    except NoBackup:
        return {"name": name, "state": "not finished"}
    except BackupDamaged:
        return {"name": name, "state": "damaged"}
    return {**_described(manifest), "state": "whole"}


def _described(manifest: Manifest) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(manifest.header),
        "files": sum(len(each.files) for each in manifest.objects),
        "bytes": manifest.size,
    }


@backup.command("verify")
def verify(
    target: Target,
    name: Annotated[str | None, typer.Argument(help="Of one backup; else all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read backups whole and say what is damaged. Exit code 0: nothing, 1: something."""
    rows: list[dict[str, Any]] = []
    with _opened(target) as kept:
        names = [name] if name is not None else kept.names()
        if not names:
            raise AnswerRefused("there is no backup there")
        for each in names:
            found = list(_verified(kept, each))
            rows += [{"name": each, "found": text} for text in found] or [{"name": each}]
    show([{"found": "", **row} for row in rows], ("name", "found"), as_json=as_json)
    if any("found" in row for row in rows):
        raise typer.Exit(EXIT_REFUSED)


def _verified(kept: BackupTarget, name: str) -> Iterator[str]:
    try:
        manifest = kept.manifest(name)
    except (NoBackup, BackupDamaged) as error:
        yield str(error)
        return
    with _progress(f"verify {name}", manifest.size) as told:
        yield from kept.verify(manifest, told)


def restore(
    source: Target,
    data_dir: Annotated[Path, typer.Argument(help="Made anew, or empty.")],
    name: Annotated[str, typer.Option(help="Of the backup; else the last one.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a data directory of a backup: the next `routelog serve` there starts from it.

    Exit code 0: it is well, 1: nothing was made, or what was backed up is damaged.
    """
    keep_private()
    disk = SystemDisk()
    with _opened(source) as kept:
        manifest = kept.manifest(name) if name else kept.last()
        with _progress("restore", manifest.size) as told:
            Restore(kept, manifest, data_dir, disk).run(told)
        with (
            open_metadata(data_dir, disk, read_only=True) as metadata,
            _progress("verify", manifest.size) as told,
        ):
            data = DataDirectory(data_dir, disk, metadata, partition_names(metadata))
            verification = Verification(data, told)
            findings = list(verification.run())
            partitions = sum(each.known for each in data.partitions())
        damages = [each for each in findings if each.severity == "damage"]
        row = {
            "data_dir": str(data_dir),
            **_described(manifest),
            "partitions": partitions,
            "batches": verification.batches,
            "blocks": verification.blocks,
            "damages": len(damages),
        }
        _show_restored(row, manifest.header.remote_storage, as_json=as_json)
        if damages:
            what = f"{damages[0].file}: {damages[0].reason}"
            raise AnswerRefused(
                f"what was backed up is damaged ({what}); 'routelog log verify' says more"
            )


def _show_restored(row: dict[str, Any], remote: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(row).decode())
        return
    lines = [{"what": what.replace("_", " "), "is": value} for what, value in row.items()]
    show(lines, ("what", "is"), as_json=False)
    if remote:
        typer.echo(
            f"remote segments are not in a backup: they stay in {printable(remote)}, "
            "which only one broker may use"
        )


def _address(target: str) -> str:
    """The address of a bucket: folders may be given as paths."""
    return target if "://" in target else f"file://{quote(str(Path(target).absolute()))}"


@contextmanager
def _opened(target: str) -> Iterator[BackupTarget]:
    address = _address(target)
    with complaints():
        try:
            bucket = open_bucket(address, SystemDisk())
            if address.startswith("file:"):
                # A folder that is missing is not an empty one.
                Path(unquote(urlsplit(address).path)).stat()
            yield BackupTarget(bucket)
        except (
            BackupDamaged,
            BadBucket,
            BucketFailed,
            MetadataCorrupt,
            MetadataUnavailable,
            NoBackup,
            NotEmpty,
            OSError,
            UnknownEntry,
        ) as error:
            raise AnswerRefused(str(error)) from None


@contextmanager
def _progress(what: str, size: int) -> Iterator[Callable[..., None]]:
    """Show a bar while it lasts: given the bytes that were done, and their sum when it is known late."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=size or None)
        yield lambda done, total=None: bar.update(task, advance=done, **_known(total))


def _known(total: int | None) -> dict[str, Any]:
    return {"total": total} if total else {}
