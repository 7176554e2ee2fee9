"""Consistent copies of a running store, and backups made of them."""
