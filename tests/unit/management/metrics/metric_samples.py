"""Metrics as Prometheus reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator

Samples = dict[str, float]


async def samples(texts: AsyncIterator[str]) -> Samples:
    """The value of each sample, by name with labels."""
    found: Samples = {}
    async for text in texts:
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                assert name not in found
                found[name] = float(value)
    return found
