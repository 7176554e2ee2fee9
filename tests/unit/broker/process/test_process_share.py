"""What one of several processes may take."""

from __future__ import annotations

import pytest

from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.process_share import process_share

MIB = 1024 * 1024


@pytest.mark.parametrize("processes", [2, 4, 16])
def test_one_user_leaves_the_others_of_his_process_room(processes: int) -> None:
    share = process_share(BrokerConfig(processes=processes))
    assert share.intake_user_bytes_max == share.intake_connection_bytes_max == 128 * MIB
    assert share.intake_bytes_max > 160 * MIB


def test_budgets_are_divided() -> None:
    whole = BrokerConfig(
        processes=4,
        intake_bytes_max=1024 * MIB,
        intake_user_bytes_max=640 * MIB,
        definitions_bytes=8,
    )
    share = process_share(whole)
    assert (share.intake_bytes_max, share.intake_user_bytes_max) == (256 * MIB, 160 * MIB)
    assert share.definitions_bytes == 2
