"""What became of messages that were published together."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of the messages, known by their indexes.

    Attributes:
        confirmed: messages that are as safe as their queues promise.
        unroutable: those that no queue gets.
        refused: those that were not stored.
        refusal: why the last of these was refused, if a queue did it.
    """

    confirmed: int
    unroutable: Sequence[int]
    refused: Sequence[int]
    refusal: str = ""
