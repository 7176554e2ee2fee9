"""What operators see of connections, and do with their messages."""
