"""The compiled way of a batch into a log against the same sources uncompiled: equal calls, equal outcomes."""

from array import array
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.log_backend.log_records import batch

from routelog.log_backend.journal import journal_entry, journal_groups
from routelog.log_backend.journal.journal_block import HandedOut
from routelog.log_backend.partitions import tail
from routelog.log_backend.records import checksum, record_encoding

SOURCES = Path(__file__).parents[2] / "src"

pytestmark = pytest.mark.skipif(
    not str(tail.__file__).endswith(".so"), reason="the kernel is not compiled"
)


def uncompiled(module: ModuleType) -> Any:
    name = module.__name__.rpartition(".")[2]
    source = SOURCES / f"{module.__name__.replace('.', '/')}.py"
    spec = spec_from_file_location(f"uncompiled_{name}", source)
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


BOTH_TAILS = (tail, uncompiled(tail))
BOTH_GROUPS = (journal_groups, uncompiled(journal_groups))
BOTH_ENTRIES = (journal_entry, uncompiled(journal_entry))
BOTH_CHECKSUMS = (checksum, uncompiled(checksum))
BOTH_ENCODINGS = (record_encoding, uncompiled(record_encoding))

BODIES = st.lists(st.binary(max_size=30), min_size=1, max_size=4)
CALLS = st.one_of(
    st.tuples(st.just("append"), BODIES),
    st.tuples(st.sampled_from(["drop_up_to", "unflush_from", "find"]), st.integers(0, 60)),
    st.tuples(st.just("evict"), st.integers(0, 1_000)),
    st.tuples(st.just("take_unflushed"), st.integers(0, 60), st.integers(1, 9)),
)


def told(a_tail: Any, call: str, arguments: tuple[object, ...]) -> list[object]:
    """What a call gives, and what the tail looks like then."""
    gone: list[object] = []
    if call == "drop_up_to":
        arguments = (*arguments, gone.extend)
    given = getattr(a_tail, call)(*arguments)
    seen = [a_tail.bytes, a_tail.unflushed_bytes, a_tail.is_flushed, len(a_tail)]
    return [given, *seen, a_tail.first, a_tail.last_below(1 << 62), gone]


@given(calls=st.lists(CALLS, max_size=200))
def test_a_tail_is_the_same(calls: list[tuple[Any, ...]]) -> None:
    tails = [module.Tail() for module in BOTH_TAILS]
    end = 0
    for call, *arguments in calls:
        if call == "append":
            arguments = [batch(arguments[0], end)]
            end = arguments[0].end_offset
        first, second = (told(each, call, tuple(arguments)) for each in tails)
        assert first == second


@given(
    entries=st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1), BODIES, st.booleans(), st.booleans(), st.integers(1, 3)
        )
    ),
    bytes_max=st.integers(1, 2_000),
)
def test_what_gathers_for_the_journal_is_the_same(
    entries: list[tuple[int, list[bytes], bool, bool, int]], bytes_max: int
) -> None:
    outcomes = []
    for groups_module, entry_module in zip(BOTH_GROUPS, BOTH_ENTRIES, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(groups_module, "COMMIT_BYTES_MAX", bytes_max)
            patch.setattr(groups_module, "PENDING_BYTES_HIGH", 5 * bytes_max)
            outcomes.append(gathered(groups_module, entry_module, entries))
    assert outcomes[0] == outcomes[1]


def gathered(
    groups_module: Any, entry_module: Any, entries: list[tuple[int, list[bytes], bool, bool, int]]
) -> list[object]:
    heard: list[object] = []
    groups = groups_module.JournalGroups(heard.append, lambda on: heard.append(("pressed", on)))
    groups.start(7)
    for partition, bodies, waited, synced, queues in entries:
        change = HandedOut(0, partition) if len(bodies) == 1 else batch(bodies, 5)
        entry = entry_module.JournalEntry(partition, change)
        heard.append(entry.encode())
        if len(bodies) == 2:
            for _ in range(queues):
                heard.append(groups.append_batch(partition, change, waited, synced))
        else:
            heard.append(groups.append(entry, waited, synced))
    while groups.has_more:
        group = groups.take_first()
        heard += [group.position, group.count, group.bytes, group.waited, group.synced]
        heard.append(b"".join(group.content.buffers()))
        groups.promise(group.position)
        heard.append(groups.pending_bytes)
    return heard


@given(content=st.binary(max_size=1_000))
def test_a_checksum_is_the_same(content: bytes) -> None:
    assert len({module.crc32c(content) for module in BOTH_CHECKSUMS}) == 1


@given(
    rows=st.lists(st.tuples(st.integers(-1, 22), st.integers(-1, 22)), max_size=8),
    source=st.binary(max_size=20),
)
def test_routing_keys_are_the_same_or_refused(rows: list[tuple[int, int]], source: bytes) -> None:
    table = memoryview(array("i", [n for at, size in rows for n in (at, size, 0, 0, 0, 0)]))
    outcomes = []
    for module in BOTH_ENCODINGS:
        try:
            outcomes.append(module.routing_keys(memoryview(bytearray(source)), table, len(rows)))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    if isinstance(outcomes[0], list):
        assert outcomes[0] == [source[at : at + size] for at, size in rows]
