"""Connections that publish and consume, and what they count."""
