"""Indexes are views in Spark SQL."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from unit.spark_bridge.log_files import TIME, LogFiles, records

from routelog.__main__ import command_line
from routelog.spark_bridge import index_views

pytestmark = [pytest.mark.interop, pytest.mark.spark]

DAY = 86_400_000_000
QUEUE = "orders/größe [1]=%2F"


def run(*arguments: str) -> None:
    done = CliRunner().invoke(command_line, list(arguments))
    assert done.exit_code == 0, done.output


def test_sql_of_spark_asks_an_index(spark: SparkSession, tmp_path: Path) -> None:
    folder, data = tmp_path / "indexes", tmp_path / "data"
    where = ("--in", str(folder))
    log = LogFiles(data, QUEUE)

    def write(base: int, time: int) -> None:
        bodies = [json.dumps({"id": n, "total": n / 2}).encode() for n in range(base, base + 10)]
        keys = [b"order.eu" if n % 2 else b"order.us" for n in range(base, base + 10)]
        log.segment(base, (base, records(bodies, routing_keys=keys, time=time)))

    write(0, TIME)
    for name in ("orders", "never"):
        columns = "id long, total double, area string from key 2"
        run("index", "create", name, "--queue", QUEUE, "--columns", columns, *where)
    assert index_views(spark, str(folder)) == []
    run("index", "update", "orders", "--path", str(data), *where)
    write(10, TIME + DAY)
    run("index", "update", "orders", "--path", str(data), *where)
    assert index_views(spark, str(folder)) == ["orders"]
    by_area = (
        "select area, queue, date, count(*), sum(total), min(offset) from orders"
        " group by all order by date, area"
    )
    days = (date(2023, 11, 14), date(2023, 11, 15))
    expected = [
        ("eu", QUEUE, days[0], 5, 12.5, 1),
        ("us", QUEUE, days[0], 5, 10.0, 0),
        ("eu", QUEUE, days[1], 5, 37.5, 11),
        ("us", QUEUE, days[1], 5, 35.0, 10),
    ]
    assert [tuple(row) for row in spark.sql(by_area).collect()] == expected

    write(20, TIME + DAY)
    run("index", "update", "orders", "--path", str(data), *where)
    assert spark.sql("select count(*) from orders").collect() == [(20,)]
    before = len(DeltaTable(folder / "orders").file_uris())
    run("export", "compact", str(folder / "orders"), "--all")
    assert len(DeltaTable(folder / "orders").file_uris()) < before
    index_views(spark, str(folder))
    assert spark.sql("select count(*), count(distinct id) from orders").collect() == [(30, 30)]
    one_day = "select sum(total) from orders where date = '2023-11-14' and area = 'eu'"
    assert spark.sql(one_day).collect() == [(12.5,)]
