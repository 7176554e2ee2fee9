"""What one pass leaves of segments, compared with the obvious way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pamqp.commands import Basic
from unit.log_backend.log_records import bodies_of, encoded, records

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.compaction_pass import (
    CompactedSegment,
    CompactionEnd,
    CompactionInput,
    CompactionTask,
    compact,
)
from routelog.log_backend.segments.log_directory import segment_path
from routelog.log_backend.segments.segment import Segment, holes, open_sealed
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.segments.segment_forms import current_segments, leave_one_form
from routelog.log_backend.segments.segment_scan import read_segment, scan

Pairs = Sequence[tuple[str, bytes]]


def written(directory: Path, *segments: Sequence[Pairs], first: int = 0) -> list[CompactionInput]:
    """Sealed segments of batches."""
    made: list[tuple[int, bytes]] = []
    offset = first
    for batches in segments:
        base, content = offset, b""
        for pairs in batches:
            keys, bodies = [key.encode() for key, _ in pairs], [body for _, body in pairs]
            content += encoded(RecordBatch(records(bodies, routing_keys=keys), offset, 3))
            offset += len(pairs)
        made.append((base, content))
    ends = [base for base, _ in made[1:]] + [offset]
    inputs = []
    for (base, content), end in zip(made, ends, strict=True):
        path = segment_path(directory, base)
        path.write_bytes(content)
        inputs.append(CompactionInput(str(path), base, end, len(content)))
    return inputs


def task(directory: Path, inputs: list[CompactionInput], **changes: object) -> CompactionTask:
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    given: dict[str, object] = {
        "clean_end": 0,
        "deletions_end": 0,
        "key_header": "",
        "keys_max": 1_000,
        "segment_bytes_max": 1_000_000,
        "scratch": str(scratch),
    }
    return CompactionTask(inputs=inputs, **(given | changes))


Found = list[tuple[int, bytes]]  # offset and body


def content(path: Path, base: int) -> Found:
    """The records of a segment."""
    found: Found = []
    for stretch in scan(read_segment(SystemDisk(), path), base):
        assert stretch.batch is not None
        found += enumerate(bodies_of(stretch.batch), stretch.batch.base_offset)
    return found


def after(given: CompactionTask) -> tuple[Found, list[CompactedSegment], int]:
    """All records behind a pass, its new segments, and its end."""
    found: Found = []
    steps: list[CompactedSegment] = []
    at = end = 0
    for step in compact(SystemDisk(), given, "name"):
        if isinstance(step, CompactionEnd):
            end = step.clean_end
            continue
        for each in given.inputs[at : step.first]:
            found += content(Path(each.path), each.base_offset)
        new = content(Path(step.path), given.inputs[step.first].base_offset)
        found += new
        before = sum(
            len(content(Path(each.path), each.base_offset))
            for each in given.inputs[step.first : step.end]
        )
        assert step.removed == before - len(new)
        steps.append(step)
        at = step.end
    for each in given.inputs[at:]:
        found += content(Path(each.path), each.base_offset)
    return found, steps, end


def test_the_last_record_of_each_key_stays(tmp_path: Path) -> None:
    inputs = written(
        tmp_path,
        [[("a", b"1"), ("b", b"2"), ("a", b"3")], [("c", b"4")]],
        [[("b", b"5"), ("d", b"6"), ("d", b"7"), ("e", b"8")]],
    )
    found, steps, end = after(task(tmp_path, inputs))
    assert found == [(2, b"3"), (3, b"4"), (4, b"5"), (6, b"7"), (7, b"8")]
    assert [(each.first, each.end, each.removed) for each in steps] == [(0, 2, 3)]
    assert end == 8


def test_random_logs_are_left_as_the_obvious_way_leaves_them(tmp_path: Path) -> None:
    choice = random.Random(5)
    for number in range(40):
        directory = tmp_path / str(number)
        directory.mkdir()
        segments = [
            [
                [
                    (f"k{choice.randrange(9)}", choice.choice((b"", choice.randbytes(20))))
                    for _ in range(choice.randint(1, 7))
                ]
                for _ in range(choice.randint(1, 4))
            ]
            for _ in range(choice.randint(1, 6))
        ]
        inputs = written(directory, *segments)
        clean = choice.randrange(len(inputs))
        clean_end = inputs[clean].base_offset
        deletions_end = choice.choice((0, clean_end))
        pairs = [pair for batches in segments for batch in batches for pair in batch]
        dirty = {key: at for at, (key, _) in enumerate(pairs) if at >= clean_end}
        expected = [
            (at, body)
            for at, (key, body) in enumerate(pairs)
            if at >= dirty.get(key, -1) and (body or at >= deletions_end)
        ]
        given = task(
            directory,
            inputs,
            clean_end=clean_end,
            deletions_end=deletions_end,
            segment_bytes_max=choice.choice((1, 600, 1_000_000)),
        )
        found, _, end = after(given)
        assert found == expected
        assert end == len(pairs)


def test_a_pass_ends_in_front_of_too_many_keys_but_takes_one_segment(tmp_path: Path) -> None:
    inputs = written(
        tmp_path,
        [[("a", b"1"), ("b", b"2"), ("a", b"3")]],
        [[("b", b"4"), ("c", b"5")]],
        [[("a", b"6")]],
    )
    _, _, end = after(task(tmp_path, inputs, keys_max=1))
    assert end == 3
    found, _, end = after(task(tmp_path, inputs, keys_max=3))
    assert (end, found) == (6, [(3, b"4"), (4, b"5"), (5, b"6")])


def test_a_segment_of_which_nothing_goes_stays_as_it_is(tmp_path: Path) -> None:
    inputs = written(tmp_path, [[("a", b"1")]], [[("b", b"2")]], [[("b", b"3")]])
    _, steps, _ = after(task(tmp_path, inputs, segment_bytes_max=1))
    assert [(each.first, each.end) for each in steps] == [(1, 3)]


def test_inputs_without_survivors_become_no_segment_of_their_own(tmp_path: Path) -> None:
    values = [[("a", b"1"), ("b", b"2")]], [[("a", b"3"), ("b", b"4")]], [[("a", b"5" * 800)]]
    inputs = written(tmp_path, *values, [[("b", b"6" * 800)]])
    found, steps, _ = after(task(tmp_path, inputs, segment_bytes_max=500))
    assert [at for at, _ in found] == [4, 5]
    assert [(each.first, each.end) for each in steps] == [(0, 3)]


def test_the_key_is_the_value_of_a_header_where_there_is_one(tmp_path: Path) -> None:
    content_bytes = b""
    given: Sequence[dict[str, object]] = (
        {"id": "x"},
        {"id": 7},
        {},
        {"id": bytearray(b"x")},
        {"id": 7},
    )
    for offset, headers in enumerate(given):
        raw = Basic.Properties(headers=headers).marshal()
        batch = RecordBatch(records([b"%d" % offset], routing_key=b"x", properties=raw), offset, 1)
        content_bytes += encoded(batch)
    path = segment_path(tmp_path, 0)
    path.write_bytes(content_bytes)
    inputs = [CompactionInput(str(path), 0, 5, len(content_bytes))]
    found, _, _ = after(task(tmp_path, inputs, key_header="id"))
    assert [at for at, _ in found] == [2, 3, 4]
    found, _, _ = after(task(tmp_path, inputs))
    assert [at for at, _ in found] == [4]


def test_damage_ends_a_pass(tmp_path: Path) -> None:
    inputs = written(tmp_path, [[("a", b"1")], [("a", b"2")]])
    path = Path(inputs[0].path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        with pytest.raises(SegmentDamaged):
            after(task(tmp_path, inputs))
    path.write_bytes(whole[:-8])
    with pytest.raises(SegmentDamaged, match="it has not"):
        after(task(tmp_path, inputs))


def placed(directory: Path, given: CompactionTask, number: int) -> None:
    """Give the segments of a pass their names; the old ones stay, as a crash may leave them."""
    for step in compact(SystemDisk(), given, "name"):
        if isinstance(step, CompactedSegment):
            path = segment_path(directory, given.inputs[step.first].base_offset, number)
            for suffix in (".index", ".timeindex", ".log"):
                Path(step.path).with_suffix(suffix).rename(path.with_suffix(suffix))


def test_a_new_segment_takes_the_place_of_all_that_it_has_the_records_of(tmp_path: Path) -> None:
    inputs = written(tmp_path, [[("a", b"1")]], [[("a", b"2")]], [[("a", b"3")]], [[("a", b"4")]])
    sealed, newest = inputs[:3], inputs[3]
    placed(tmp_path, task(tmp_path, sealed), 1)
    names = [path.name for path in tmp_path.iterdir()]
    current = current_segments(SystemDisk(), tmp_path, names)
    assert current == {0: segment_path(tmp_path, 0, 1), 3: Path(newest.path)}
    left = leave_one_form(SystemDisk(), tmp_path, names)
    assert left == current
    stems = {path.name for path in tmp_path.iterdir() if path.is_file()}
    compacted = segment_path(tmp_path, 0, 1)
    files = {compacted.with_suffix(suffix).name for suffix in (".log", ".index", ".timeindex")}
    assert stems == files | {Path(newest.path).name}
    opened = open_sealed(SystemDisk(), compacted, 0, 3)
    assert (opened.damage, opened.unindexed) == (None, False)
    assert (opened.segment.base_offset, opened.segment.end_offset) == (0, 3)
    assert holes(SystemDisk(), opened.segment) == [(0, 2)]
    # An index without its segment, of a pass that was cut off, goes.
    orphan = segment_path(tmp_path, 3, 2).with_suffix(".index")
    orphan.write_bytes(b"")
    leave_one_form(SystemDisk(), tmp_path, [path.name for path in tmp_path.iterdir()])
    assert not orphan.exists()


def test_offsets_far_behind_the_base_are_found_without_an_index_entry(tmp_path: Path) -> None:
    segment = Segment(segment_path(tmp_path, 0, 1), 0)
    far = 2**33
    for offset in (0, far, far + 10_000):
        batch = RecordBatch(records([b"x" * 5_000]), offset, 1)
        segment.add(batch, segment.size, batch.records.batch_bytes)
    assert segment.position_of(far + 10_000) == 0
    assert all(encoded for _, encoded in segment.index_files())
