"""Copies of sealed segments in a bucket."""
