"""One sequence of changes for the whole node, written and synced by group commit."""
