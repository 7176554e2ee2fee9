"""Export and import of everything that was declared."""
