"""The reasons why publishers should wait."""

from routelog.log_backend.upkeep.disk_pressure import Pressures


def test_the_owner_hears_of_changes_only() -> None:
    pressures = Pressures()
    heard: list[frozenset[str]] = []
    pressures.on_change = heard.append
    pressures.press("disk", False)
    pressures.press("disk", True)
    pressures.press("disk", True)
    pressures.press("memory", True)
    pressures.press("disk", False)
    pressures.press("memory", False)
    assert heard == [{"disk"}, {"disk", "memory"}, {"memory"}, set()]
    assert not pressures.reasons
