"""A queue as a table with columns: `routelog index`."""
