"""How long a partition keeps records that it could let go of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule for whole segments; times are microseconds.

    Attributes:
        settled_age: settled records stay this long.
        is_stream: nothing is settled by consumers: the limits below end a record's life.
        age_max: of a stream, records older than this go.
        bytes_max: of a stream, the oldest records go when the log is larger.
    """

    settled_age: int = 0
    is_stream: bool = False
    age_max: int | None = None
    bytes_max: int | None = None
