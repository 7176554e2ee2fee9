import random
from pathlib import Path

import pytest

from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.segments.damage import (
    EVERYTHING_BEHIND,
    NOTHING_BLOCKED,
    Damage,
    DamageRecord,
    damage_change,
    load_damage,
    merged_ranges,
    without_ranges,
)


def damage(first: int, end: int, file: str = "a.log", position: int = 0) -> Damage:
    return Damage(file, position, "a test", first, end)


def test_the_lowest_damage_blocks() -> None:
    record = DamageRecord()
    assert record.blocked_from == NOTHING_BLOCKED
    assert record.add(damage(50, 60, "b.log"))
    assert record.add(damage(10, 20))
    assert record.blocked_from == 10
    assert [each.first for each in record.found] == [10, 50]


def test_the_same_place_is_noted_once_with_its_lowest_offset() -> None:
    record = DamageRecord()
    assert record.add(damage(10, 20))
    assert not record.add(damage(10, 20))
    assert not record.add(damage(12, 20))
    assert record.add(damage(8, 20))
    assert [each.first for each in record.found] == [8]
    assert record.add(damage(8, 20, position=7))


def test_its_text_names_file_byte_reason_and_offsets() -> None:
    assert (
        str(damage(10, 20)) == "a.log is damaged at byte 0: a test; offsets 10 to 19 are concerned"
    )
    assert str(damage(10, EVERYTHING_BEHIND)).endswith("; offsets from 10 on are concerned")


def test_a_record_is_kept_and_deleted(tmp_path: Path) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    record = DamageRecord([damage(10, 20)], [(3, 5)])
    store.apply([damage_change(7, record), damage_change(8, DamageRecord([], [(1, 2)]))])
    assert load_damage(store, 7) == record
    assert load_damage(store, 8) == DamageRecord([], [(1, 2)])
    store.apply([damage_change(7, DamageRecord()), damage_change(8, None)])
    assert load_damage(store, 7) == DamageRecord()
    assert load_damage(store, 8) == DamageRecord()
    store.close()


@pytest.mark.parametrize(
    ("lost", "offset", "promised"),
    [
        ([], 50, 50),
        ([(40, 50)], 50, 40),
        ([(40, 60)], 50, 40),
        ([(40, 49)], 50, 50),
        ([(30, 40), (40, 50)], 50, 30),
        ([(50, 60)], 50, 50),
    ],
)
def test_what_a_repair_gave_up_is_not_promised(
    lost: list[tuple[int, int]], offset: int, promised: int
) -> None:
    assert DamageRecord([], lost).still_promised(offset) == promised


def test_ranges_are_those_of_sets() -> None:
    choice = random.Random(3)
    for _ in range(300):
        ranges, taken = (
            [
                (at, at + choice.randint(1, 5))
                for at in choice.sample(range(40), choice.randint(0, 5))
            ]
            for _ in range(2)
        )
        assert offsets(merged_ranges(ranges)) == offsets(ranges)
        left = without_ranges(merged_ranges(ranges), merged_ranges(taken))
        assert offsets(left) == offsets(ranges) - offsets(taken)
        assert left == sorted(left)


def offsets(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}
