"""Expiry, limits, dead letters, retries."""
