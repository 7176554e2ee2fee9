"""The record batch: the bytes that flow from the socket to the disk and back."""
