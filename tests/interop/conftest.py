"""What interoperability tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of all tests, which knows our format."""
    from pyspark.sql import SparkSession

    from routelog.spark_bridge import register

    with pytest.MonkeyPatch.context() as patch:
        # Workers are processes of their own and import the packages from where they are.
        patch.setenv(
            "PYTHONPATH",
            os.pathsep.join(filter(None, [str(ROOT / "src"), os.getenv("PYTHONPATH")])),
        )
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "768m")
            # Short programs: the time of the second compiler does not come back.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.pollingDelay", "10ms")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            register(session)
            yield session
        finally:
            session.stop()
