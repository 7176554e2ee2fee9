"""Backups over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from unit.management.managed_node import ManagedNode

from routelog.log_backend import BackupRefused, BadBucket
from routelog.management.calls.failures import Refused, refused
from routelog.management.views import backup_views


async def ended(node: ManagedNode) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            state = await node.ask(backup_views.get_backup)
            if state["state"] not in ("taking", "copying"):
                return dict(state)
            await asyncio.sleep(0.01)


async def test_a_backup_is_begun_and_asked_for(node: ManagedNode, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(backup_views.get_backup)
    await node.queue("mine")
    target = f"file://{tmp_path}/target"
    status, begun = await node.ask(backup_views.post_backup, body={"target": target, "name": "one"})
    assert (status, begun["name"], begun["state"]) == (201, "one", "taking")
    done = await ended(node)
    assert (done["state"], done["target"], done["error"]) == ("done", target, "")
    assert done["bytes_done"] == done["bytes_total"] > 0
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(backup_views.delete_backup)


async def test_a_backup_is_cancelled(node: ManagedNode, tmp_path: Path) -> None:
    await node.ask(backup_views.post_backup, body={"target": f"file://{tmp_path}/target"})
    assert await node.ask(backup_views.delete_backup) == 204
    done = await ended(node)
    assert (done["state"], done["error"]) == ("failed", "it was cancelled")


async def test_another_backup_and_a_bad_target_are_refused(
    node: ManagedNode, tmp_path: Path
) -> None:
    with pytest.raises(BadBucket) as bad:
        await node.ask(backup_views.post_backup, body={"target": "ftp://here"})
    answer = refused(bad.value)
    assert answer is not None
    assert answer.status == 400
    body = {"target": f"file://{tmp_path}/target"}
    await node.ask(backup_views.post_backup, body=body)
    with pytest.raises(BackupRefused) as busy:
        await node.ask(backup_views.post_backup, body=body)
    answer = refused(busy.value)
    assert answer is not None
    assert answer.status == 409
    await ended(node)


async def test_what_is_shown_of_a_target_has_no_secrets(node: ManagedNode) -> None:
    target = "s3://key:secret@bucket/prefix?endpoint_override=127.0.0.1:1&scheme=http"
    _, begun = await node.ask(backup_views.post_backup, body={"target": target})
    assert begun["target"] == "s3://bucket/prefix"
    await node.ask(backup_views.delete_backup)
    await ended(node)
