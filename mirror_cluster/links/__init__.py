"""Connections between nodes: who is at the other end, and messages in both directions."""
