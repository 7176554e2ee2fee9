"""Which offsets of a log are settled."""
