"""How queues share a turn of the event loop."""
