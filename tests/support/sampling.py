"""Which values of a large grid are in the sample of `make test`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

ValueT = TypeVar("ValueT")


def sampled(values: Iterable[ValueT], every: int) -> list[ValueT | ParameterSet]:
    """Values for `parametrize`: the first and then one in `every` are in the sample, the others are `long`."""
    return [
        pytest.param(*_parts(value), marks=pytest.mark.long) if number % every else value
        for number, value in enumerate(values)
    ]


def _parts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
