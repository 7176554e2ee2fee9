"""The places where a queue is used."""

from unit.vhosts.sessions.queue_places import place

__all__ = ["place"]
