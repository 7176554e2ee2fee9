"""The only ways to the clock, the disk and randomness; each has a fake in tests."""
