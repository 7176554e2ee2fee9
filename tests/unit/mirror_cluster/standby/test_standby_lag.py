"""How long what a standby lacks has been committed."""

from routelog.mirror_cluster.standby.follow_sender import LagTimes


def test_the_oldest_commit_that_it_lacks_counts() -> None:
    times = LagTimes()
    assert times.seconds(5.0) == 0.0
    times.committed(3, 1.0)
    times.committed(3, 2.0)  # nothing else since
    times.committed(7, 4.0)
    assert times.seconds(5.0) == 4.0
    times.applied(2)
    assert times.seconds(5.0) == 4.0
    times.applied(3)
    assert times.seconds(5.0) == 1.0
    times.applied(7)
    assert times.seconds(5.0) == 0.0
