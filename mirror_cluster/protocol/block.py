"""A block of a shard's journal, as replicas compare it: the journal's own, with its chain."""

from routelog.log_backend import START, Mark
from routelog.log_backend import ShardBlock as Block

__all__ = ["START", "Block", "Mark"]
