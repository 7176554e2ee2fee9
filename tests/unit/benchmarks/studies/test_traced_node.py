import io
from pathlib import Path

import pytest
from unit.log_backend.journal_replica import Replica, history
from unit.log_backend.watched_disk import WatchedDisk

from routelog.benchmarks.studies import traced_node
from routelog.benchmarks.studies.replication import Block, blocks_of, mirrored_round
from routelog.benchmarks.studies.traced_node import Tracer
from routelog.log_backend.journal.block_writer import BlockWriter
from routelog.log_backend.journal.journal import Journal

WATCHED = {
    Journal: ("_entry_added", "_made", "_committed", "commit", "store", "replicate"),
    BlockWriter: ("encode", "write"),
    Replica: ("on_block", "on_durable"),
}


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is traced from now on; the journal is as it was at the end."""
    for owner, names in WATCHED.items():
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(traced_node, "KEPT_LINES", 1)
    file = io.StringIO()
    Tracer(file).watch()
    return file


def blocks_in(file: io.StringIO) -> dict[int, Block]:
    found = blocks_of(file.getvalue())
    file.truncate(0)
    return found


async def test_a_leader_and_a_follower_are_seen_step_by_step(
    tmp_path: Path, trace: io.StringIO
) -> None:
    nodes = []
    for name in ("leader", "follower"):
        (tmp_path / name).mkdir()
        nodes.append(Replica(tmp_path / name, WatchedDisk()).open())
    leader, follower = nodes
    await leader.stored(history(1))
    leader.journal.lead(2)
    for _ in range(3):
        block = await leader.add(1, size=500)
    leader.journal.commit(block.position)
    made = blocks_in(trace)
    await follower.stored([*history(1), *leader.made])
    stored = blocks_in(trace)
    await leader.close()
    await follower.close()
    for each in leader.made[1:]:  # behind the empty one
        found = mirrored_round(made[each.position], [stored[each.position]])
        assert found is not None, each.position
        assert found.size == len(each.payload)
        assert min(found.parts["encoded"], found.parts["leader: written, synced"]) > 0
