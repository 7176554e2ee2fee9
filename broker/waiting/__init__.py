"""What publishers and their confirms wait for."""
