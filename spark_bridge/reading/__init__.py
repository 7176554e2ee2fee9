"""Batches and streams of Spark: planned by offsets, read by tasks."""
