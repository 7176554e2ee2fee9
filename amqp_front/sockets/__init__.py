"""One client's bytes in and out."""
