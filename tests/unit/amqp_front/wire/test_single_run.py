"""Runs of one message."""

from typing import Any

import pytest
from pamqp import commands

from routelog.amqp_front.wire.command import CARBON_COPY
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import single_run, without_blind_copies


def properties(headers: dict[str, Any]) -> Properties:
    return Properties(commands.Basic.Properties(headers=headers).marshal())


@pytest.mark.parametrize(
    ("headers", "copied"), [({"CC": ["a"]}, 1), ({"BCC": []}, 1), ({"c": 1}, 0)]
)
def test_a_single_run_knows_of_carbon_copies(headers: dict[str, Any], copied: int) -> None:
    run = single_run(3, b"x", b"k", 3, properties(headers), b"body")
    assert run.property_flags & CARBON_COPY == copied
    assert (run.channel, run.mandatory, run.immediate) == (3, True, True)
    assert run.property_flags & 0x2000


@pytest.mark.parametrize("seen", [{}, {"CC": ["a"]}, {"n": 1}])
def test_nobody_sees_the_blind_copies(seen: dict[str, Any]) -> None:
    run = single_run(3, b"x", b"k", 1, properties({**seen, "BCC": ["b"]}), b"body")
    bare = without_blind_copies(run)
    assert Properties(bare.properties(0)).headers() == seen
    assert (bare.keys(), bytes(bare.body(0)), bare.mandatory) == ([b"k"], b"body", True)
    assert without_blind_copies(bare) is bare
