import os
import subprocess
import sys
from pathlib import Path

import pytest

from routelog.exchanges import NameTable

ROOT = Path(__file__).parents[4]
NAMES = [f"queue.{number}" for number in range(5_000)]


def test_a_table_is_a_dict_to_whoever_asks() -> None:
    table, plain = NameTable[int](), dict[str, int]()
    for mapping in (table, plain):
        mapping.update((name, number) for number, name in enumerate(NAMES))
        mapping["queue.1"] = -1
        del mapping["queue.2"]
        assert mapping.pop("queue.3") == 3
        assert mapping.pop("queue.3", None) is None
    assert table == plain
    assert len(table) == len(plain)
    assert dict(table.items()) == plain
    assert sorted(table) == sorted(plain)
    assert sorted(table.values()) == sorted(plain.values())
    assert ("queue.2" in table, "queue.4" in table) == (False, True)
    assert table.get("queue.2") is None


def test_a_name_that_is_not_there_is_named() -> None:
    table = NameTable[int]()
    for name in ("orders", "bills"):
        with pytest.raises(KeyError, match=name):
            table[name]
        with pytest.raises(KeyError, match=name):
            del table[name]
    table["a"] = 1
    assert table.popitem() == ("a", 1)
    assert not table
    with pytest.raises(KeyError):
        table.popitem()


def test_a_look_up_of_what_is_missing_changes_nothing_for_who_walks_over_it() -> None:
    table = NameTable[int]()
    table["a"] = 1
    for _ in table.values():
        assert not any(name in table for name in NAMES)


def test_a_name_that_no_client_can_say_is_not_there() -> None:
    assert "\udcff" not in NameTable[int]()


def test_no_part_grows_long() -> None:
    table = NameTable[None]()
    table.update(dict.fromkeys(NAMES))
    assert max(map(len, table.parts.values())) < len(NAMES) / 32


def test_the_order_is_the_same_in_another_process() -> None:
    program = (
        "from routelog.exchanges import NameTable; t = NameTable(); "
        "t.update((f'q.{n}', n) for n in range(500)); print(*t)"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(orders) == 1


def test_who_walks_over_it_may_change_it() -> None:
    table = NameTable[int]()
    table.update((name, number) for number, name in enumerate(NAMES))
    met = []
    for name, number in table.items():
        met.append(number)
        del table[name]
        table[f"later.{number}"] = -1
    assert sorted(number for number in met if number >= 0) == list(range(len(NAMES)))
    assert set(table.values()) == {-1}
