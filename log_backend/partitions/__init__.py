"""One partition: append, read, settle, and change several together."""
