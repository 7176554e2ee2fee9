from pathlib import Path
from typing import Any, cast

from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.partition_table import PartitionTable


class Owner:
    intake = None
    loaded_pieces = None


def log(number: int) -> PartitionLog:
    return PartitionLog(cast(Any, Owner()), number, Path("nowhere"), durable=False)


def test_a_table_is_a_dict_to_whoever_asks() -> None:
    table, plain = PartitionTable(), {number: log(number) for number in range(300)}
    table.update(plain)
    assert table.pop(7) is plain.pop(7)
    assert table.get(7) is None
    assert table == plain
    assert len(table) == len(plain)
    assert set(table.values()) == set(plain.values())
    assert sorted(table) == sorted(plain)


def test_who_walks_over_it_may_change_it() -> None:
    table = PartitionTable()
    table.update((number, log(number)) for number in range(300))
    met = [table.pop(partition.number).number for partition in table.values()]
    assert sorted(met) == list(range(300))
    assert not table


def test_a_partition_knows_its_directory_without_keeping_a_path() -> None:
    assert log(1).directory == Path("nowhere")
