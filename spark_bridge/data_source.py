"""The format `routelog` of Spark's Python data source API."""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType


class RouteLogDataSource(DataSource):
    """Logs of a RouteLog broker as a table of records.

    Spark imports this module in processes that may lack everything else, so the rest of the
    bridge is imported where it is needed.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "routelog"

    def schema(self) -> StructType:
        """All columns, for a query that gives no schema."""
        from spark_bridge.envelope import ENVELOPE
        from spark_bridge.read_options import parse_read_options

        parse_read_options(
            self.options
        )  # a mistake shows in load() rather than in the first action
        return ENVELOPE

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch query; the schema is its choice of columns."""
        from spark_bridge.batch_reader import BatchReader
        from spark_bridge.read_options import parse_read_options

        return BatchReader(parse_read_options(self.options), schema)
