"""What each path of the HTTP API does."""
