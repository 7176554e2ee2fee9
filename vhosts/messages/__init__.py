"""A delivery, its properties, and who takes it."""
