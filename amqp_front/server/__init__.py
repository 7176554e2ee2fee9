"""Listeners, TLS, and what operators see of connections."""
