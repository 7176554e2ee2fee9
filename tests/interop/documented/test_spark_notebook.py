"""The notebook of docs/ does what it says, cell by cell, against a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import BrokerFactory
from pyspark.sql import SparkSession
from support.log_service import service_url
from support.management_door import ManagementDoor

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

NOTEBOOK = Path(__file__).parents[3] / "docs" / "spark" / "spark.ipynb"


def test_the_notebook_runs(
    spark: SparkSession, fresh_broker: BrokerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = fresh_broker(ROUTELOG_FLUSH_SECONDS="0.1")
    monkeypatch.setenv("AMQP_URL", broker.url)
    monkeypatch.setenv("ROUTELOG_URL", service_url(broker))
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    found: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), found)
    assert found["totals"] == {f"u{n}": sum(range(n, 1_000, 7)) / 2 for n in range(7)}
    assert (found["records"], found["different"]) == (1_500, 1_500)
    assert found["answers"] == 7
    (reader,) = ManagementDoor(broker).get("logs", "/", "audit", "readers")
    assert reader["name"] == "notebook"
