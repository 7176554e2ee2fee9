"""Broker processes to measure."""
