"""Partner of spark_bridge/index/index_registry.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from routelog.log_backend import SystemClock, SystemDisk
from routelog.log_backend.doors.disk import Buffer
from routelog.spark_bridge.index.index_registry import Index, IndexRegistry
from routelog.spark_bridge.lakes.delta_lake import INTENTS, DeltaLake
from routelog.spark_bridge.logs.errors import BadOption

ORDERS = Index("orders", "/", "orders", "id long", "json", with_body=False)


class PowerCut(Exception):
    pass


class FullDisk(SystemDisk):
    """Takes nothing."""

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        raise PowerCut


class MortalDisk(SystemDisk):
    """Ends at the n-th file that is to be removed."""

    def __init__(self, removals: int) -> None:
        self._left = removals

    def remove(self, path: Path) -> None:
        if not self._left:
            raise PowerCut
        self._left -= 1
        super().remove(path)


@pytest.mark.parametrize("removals", range(5))
def test_an_index_that_was_dropped_half_can_be_dropped_again(tmp_path: Path, removals: int) -> None:
    book = IndexRegistry(tmp_path, SystemDisk())
    book.create(ORDERS)
    path = book.path(ORDERS)
    DeltaLake(path, ORDERS.layout, "index", SystemDisk(), SystemClock())
    (path / INTENTS / "index.writing").write_text('{"token": ""}')
    (path / "date=2026-01-01").mkdir()
    (path / "date=2026-01-01" / "part-1.parquet").write_bytes(b"rows")
    assert len([each for each in path.rglob("*") if each.is_file()]) == 4
    try:
        IndexRegistry(tmp_path, MortalDisk(removals)).drop("orders")
    except PowerCut:
        assert book.all() == [ORDERS]
        book.drop("orders")
    assert not path.exists()
    book.create(ORDERS)


def test_what_a_crash_left_of_a_declaration_is_in_nobody_s_way(tmp_path: Path) -> None:
    book = IndexRegistry(tmp_path, SystemDisk())
    for name in ("orders", "others"):
        with pytest.raises(PowerCut):
            IndexRegistry(tmp_path, FullDisk()).create(replace(ORDERS, name=name))
    assert list((tmp_path / "orders" / INTENTS).iterdir())
    assert book.all() == []
    book.create(ORDERS)
    assert book.all() == [ORDERS]


def test_another_index_or_folder_of_the_name_is_refused(tmp_path: Path) -> None:
    book = IndexRegistry(tmp_path, SystemDisk())
    book.create(ORDERS)
    book.create(ORDERS)
    with pytest.raises(BadOption, match="there is another index orders; drop it first"):
        book.create(Index("orders", "/", "orders", "id string", "json", with_body=False))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(BadOption, match="is there, and no index"):
        book.create(Index("mine", "/", "orders", "id long", "json", with_body=False))
