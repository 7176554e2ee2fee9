"""Ordered keys and atomic batches in RocksDB."""
