"""A queue's partitions, read and handed out."""
