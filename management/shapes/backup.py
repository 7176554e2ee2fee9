"""Backups."""

from typing import Literal, TypedDict


class BackupRow(TypedDict):
    """How a backup goes, or went: bytes are those of files, `position` is the journal's."""

    name: str
    target: str
    state: Literal["taking", "copying", "done", "failed"]
    error: str
    position: int
    files: int
    bytes_total: int
    bytes_done: int
    bytes_kept: int
