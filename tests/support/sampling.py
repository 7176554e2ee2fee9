"""What of a large grid is in the sample of `make test`, and how many random examples are in `make check`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

ValueT = TypeVar("ValueT")

EXAMPLE_EVERY = int(os.environ.get("ROUTELOG_TEST_EXAMPLE_EVERY", "1"))


def sampled(values: Iterable[ValueT], every: int) -> list[ValueT | ParameterSet]:
    """Values for `parametrize`: the first and then one in `every` are in the sample, the others are `long`."""
    return [
        pytest.param(*_parts(value), marks=pytest.mark.long) if number % every else value
        for number, value in enumerate(values)
    ]


def examples(count: int) -> int:
    """How many random examples a unit test takes; `make check` takes one in `ROUTELOG_TEST_EXAMPLE_EVERY`."""
    return -(-count // EXAMPLE_EVERY)


def _parts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
