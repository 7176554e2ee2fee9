"""`routelog backup list` and `verify`, and `routelog restore`: data directories made of backups."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import msgspec
import typer

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
    SystemDisk,
    UnknownEntry,
    Verification,
    keep_private,
    open_bucket,
    open_metadata,
)
from routelog.management.commands.backup_request import Target, progress, target_address
from routelog.management.commands.client import AnswerRefused
from routelog.management.commands.options import AsJson
from routelog.management.commands.terminal import EXIT_REFUSED, complaints, printable, show
from routelog.vhosts import partition_names

COLUMNS = ("name", "time", "node", "position", "files", "bytes", "state")


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
            raise AnswerRefused(f"no backup in '{target}'")
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
    with progress(f"verify {name}", manifest.size) as told:
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
        with progress("restore", manifest.size) as told:
            Restore(kept, manifest, data_dir, disk).run(told)
        with (
            open_metadata(data_dir, disk, read_only=True) as metadata,
            progress("verify", manifest.size) as told,
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


@contextmanager
def _opened(target: str) -> Iterator[BackupTarget]:
    address = target_address(target)
    with complaints():
        try:
            bucket = open_bucket(address, SystemDisk())
            folder = unquote(urlsplit(address).path)
            # A folder that is missing is not an empty one.
            if address.startswith("file:") and not Path(folder).is_dir():
                raise AnswerRefused(f"no folder '{folder}'")
            yield BackupTarget(bucket)
        except NoBackup as error:
            raise AnswerRefused(f"{error} in '{target}'") from None
        except (
            BackupDamaged,
            BadBucket,
            BucketFailed,
            MetadataCorrupt,
            MetadataUnavailable,
            NotEmpty,
            OSError,
            UnknownEntry,
        ) as error:
            raise AnswerRefused(str(error)) from None
