"""What keeps the store small and sound in the background."""
