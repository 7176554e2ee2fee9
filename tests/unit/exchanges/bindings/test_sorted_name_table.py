from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.exchanges import SortedNameTable
from routelog.exchanges.bindings import sorted_name_table

NAMES = st.text("abé", max_size=4)


@pytest.fixture(autouse=True)
def short_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_name_table, "_RUN_NAMES_MAX", 3)
        yield


@given(st.lists(st.tuples(st.sampled_from(["set", "delete", "pop", "popitem"]), NAMES)))
def test_places_are_those_of_a_sorted_dict(steps: list[tuple[str, str]]) -> None:
    table, plain = SortedNameTable[int](), dict[str, int]()
    for number, (step, name) in enumerate(steps):
        if step == "set":
            table[name] = plain[name] = number
        elif step == "delete" and name in plain:
            del table[name], plain[name]
        elif step == "pop":
            assert table.pop(name, None) == plain.pop(name, None)
        elif step == "popitem" and plain:
            name, value = table.popitem()
            assert plain.pop(name) == value
        assert table == plain
        ordered = [plain[each] for each in sorted(plain)]
        assert table.in_order(0, len(plain)) == ordered
        for first in range(len(plain) + 2):
            assert table.in_order(first, first + 3) == ordered[first : first + 3]


def test_a_name_that_is_not_there_leaves_the_order_as_it_is() -> None:
    table = SortedNameTable[int]()
    table["b"] = 1
    for name in ("a", "c"):
        with pytest.raises(KeyError, match=name):
            del table[name]
    with pytest.raises(KeyError):
        SortedNameTable[int]().popitem()
    assert table.in_order(0, 9) == [1]
