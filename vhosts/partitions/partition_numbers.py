"""Where the numbers of partitions come from."""

from typing import Protocol

from routelog.log_backend import Change


class PartitionNumbers(Protocol):
    """Gives numbers to partitions, each once."""

    def take(self, count: int) -> tuple[list[int], Change]:
        """Numbers, and the change that keeps them from being given again."""
