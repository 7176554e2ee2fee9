"""Consumer groups as stored."""

import msgspec

from routelog.vhosts.stored.group_record import (
    GroupRecord,
    NextCursorRecord,
    group_change,
    next_cursor_change,
)

RECORD = GroupRecord("a/b", "é 1", 3, [5, 0], None)


def test_a_group_comes_back_from_what_is_stored() -> None:
    change = group_change("/", RECORD)
    assert change.key == b"groups/%2F/a%2Fb/%C3%A9%201"
    assert change.value is not None
    assert msgspec.json.decode(change.value, type=GroupRecord) == RECORD
    assert msgspec.json.decode(change.value)["version"] == 1


def test_the_next_cursor_comes_back() -> None:
    change = next_cursor_change("v", "q", 7)
    assert change.key == b"next-cursors/v/q"
    assert change.value is not None
    assert msgspec.json.decode(change.value, type=NextCursorRecord) == NextCursorRecord("q", 7)


def test_what_is_deleted_has_no_value() -> None:
    assert group_change("/", RECORD, deleted=True).value is None
    assert group_change("/", RECORD, deleted=True).key == group_change("/", RECORD).key
    assert next_cursor_change("v", "q", None).value is None
