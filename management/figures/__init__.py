"""Figures: numbers, charts, pictures and messages as people read them."""
