"""The queue, its dispatcher and its consumer groups."""
