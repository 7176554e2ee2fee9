"""Measurements of one question each, run by themselves."""
