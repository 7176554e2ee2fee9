"""What reads, verifies and repairs a stopped node's data directory."""
