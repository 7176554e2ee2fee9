"""Filters of messages: conditions on routing key, properties and body."""
