"""Clients of HTTP of a node that does not lead: their bytes go to the node that does, and come from there."""
