"""The operators' commands, which call the HTTP API."""
