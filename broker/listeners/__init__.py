"""Listening sockets, TLS and its certificates, and clients that other nodes pass on."""
