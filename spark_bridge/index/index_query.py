"""SQL over indexes, with DuckDB."""

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from routelog.spark_bridge.index.index_registry import IndexRegistry


class BadQuery(ValueError):
    """DuckDB refuses the query; the text says why."""


def ask(registry: IndexRegistry, sql: str) -> tuple[list[str], list[list[object]]]:
    """Return the column names and rows of a query, which can read filled indexes and no files.

    Raises:
        BadQuery: DuckDB refuses the query.
    """
    unfilled = []
    with duckdb.connect() as connection:
        for index in registry.all():
            try:
                table = DeltaTable(registry.path(index))
            except TableNotFoundError:
                unfilled.append(index.name)
                continue
            connection.register(index.name, table.to_pyarrow_dataset())
        connection.execute("SET enable_external_access = false")
        try:
            found = connection.sql(sql)
            if found is None:
                return [], []
            return found.columns, [list(row) for row in found.fetchall()]
        except duckdb.Error as error:
            hint = (
                f"\n'routelog index update' has not filled: {', '.join(unfilled)}"
                if unfilled
                else ""
            )
            raise BadQuery(f"{error}{hint}") from None
