"""Durability levels: what a publisher's confirm promises."""

from enum import StrEnum


class Durability(StrEnum):
    """When a persistent message of a durable queue is confirmed; each level includes those before it."""

    MEMORY = "memory"  # it has its offset
    OS = "os"  # the operating system has its bytes: it survives the end of the process
    DISK = "disk"  # they are synced: it survives a power cut
