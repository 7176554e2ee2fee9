"""The backup of the node that is under way, or the last one."""

from dataclasses import asdict
from typing import Literal

import msgspec

from routelog.management.calls.answer import Answer, Empty, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import NOT_FOUND, Refused
from routelog.management.calls.operation import answers, changes


class BackupRow(msgspec.Struct):
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


class BackupBody(msgspec.Struct):
    """Where to, and how it is to be called."""

    target: str
    name: str = ""


@answers(BackupRow, body=BackupBody, statuses=(201,))
async def post_backup(call: Call) -> Answer:
    """Begin a backup; it ends when nobody asks how it goes for 15 seconds."""
    body = await call.body(BackupBody)
    return Value(BackupRow(**asdict(call.broker.backups.start(body.target, body.name))), 201)


@answers(BackupRow)
def get_backup(call: Call) -> Answer:
    """How the backup goes, or how the last one went."""
    state = call.broker.backups.state()
    if state is None:
        raise Refused(*NOT_FOUND, "no backup was begun since the broker started")
    return Value(BackupRow(**asdict(state)))


@changes()
def delete_backup(call: Call) -> Answer:
    """Cancel the backup that is under way."""
    if not call.broker.backups.cancel():
        raise Refused(*NOT_FOUND, "no backup is under way")
    return Empty()
