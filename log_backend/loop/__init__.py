"""Work that takes several turns of the event loop."""
