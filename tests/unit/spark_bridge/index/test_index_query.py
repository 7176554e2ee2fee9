"""Partner of spark_bridge/index/index_query.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from routelog.log_backend import SystemClock, SystemDisk
from routelog.spark_bridge.index.index_query import BadQuery, ask
from routelog.spark_bridge.index.index_registry import Index, IndexRegistry
from routelog.spark_bridge.lakes.delta_lake import DeltaLake

ORDERS = Index("orders", "/", "orders", "id long", "json", with_body=False)


def test_a_query_of_an_index_that_was_never_filled_says_so(tmp_path: Path) -> None:
    book = IndexRegistry(tmp_path, SystemDisk())
    book.create(ORDERS)
    book.create(replace(ORDERS, name="bills"))
    DeltaLake(book.path(ORDERS), ORDERS.layout, "index", SystemDisk(), SystemClock())
    assert ask(book, "select id from orders") == (["id"], [])
    with pytest.raises(BadQuery, match="index update' has not filled: bills"):
        ask(book, "select id from bills")
