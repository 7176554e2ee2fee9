"""Sockets of clients: how many there are, who is at the other end, how long writes and ends go."""
