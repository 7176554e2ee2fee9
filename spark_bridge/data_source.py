"""The format `routelog` of Spark's Python data source API."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class RouteLogDataSource(DataSource):
    """Logs of a RouteLog broker as a table of records, and its exchanges as a sink.

    Spark imports this module in processes without other packages, so each method imports what it needs.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "routelog"

    def schema(self) -> StructType:
        """The columns of a query that gives no schema: all, unless options choose."""
        from routelog.spark_bridge.columns.envelope import chosen_columns, offered_columns
        from routelog.spark_bridge.reading.read_options import parse_read_options

        # A wrong option fails in load() rather than in the first action.
        options = parse_read_options(self.options)
        offered = offered_columns(options.style, headers=options.headers)
        return chosen_columns(offered, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch query; the schema is its choice of columns."""
        from routelog.spark_bridge.reading.batch_reader import BatchReader
        from routelog.spark_bridge.reading.read_options import parse_read_options

        options = parse_read_options(self.options)
        if options.pushdown:
            try:
                from routelog.spark_bridge.reading.pushdown_reader import PushdownReader
            except ImportError:
                from routelog.spark_bridge.logs.errors import BadOption

                raise BadOption("pushdown", "needs Spark 4.1 or later") from None
            return PushdownReader(options, schema)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming query; the schema is its choice of columns."""
        from routelog.spark_bridge.reading.log_stream_reader import LogStreamReader
        from routelog.spark_bridge.reading.read_options import parse_read_options

        return LogStreamReader(parse_read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch of rows as messages to an exchange."""
        from routelog.spark_bridge.writing.exchange_writer import ExchangeWriter
        from routelog.spark_bridge.writing.write_options import parse_write_options

        options = parse_write_options(self.options)
        return ExchangeWriter(options, schema, overwrite, is_stream=False)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Micro-batches of rows as messages to an exchange."""
        from routelog.spark_bridge.writing.exchange_writer import ExchangeWriter
        from routelog.spark_bridge.writing.write_options import parse_write_options

        options = parse_write_options(self.options)
        return ExchangeWriter(options, schema, overwrite, is_stream=True)
