"""The files of one partition's log."""
