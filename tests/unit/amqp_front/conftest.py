"""Fixtures for what publishes."""

from unit.amqp_front.publishing_channel import channel, node, publisher

__all__ = ["channel", "node", "publisher"]
