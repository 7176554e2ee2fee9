from routelog.mirror_cluster.replica.lease import Lease, LeaseChanged, ProbeDisk, RenewLease


def held_lease() -> Lease:
    lease = Lease(seconds=2.0, margin_seconds=0.5)
    assert lease.tick(10.0) == [ProbeDisk()]
    assert lease.probed(10.1) == [RenewLease(10.1)]
    assert lease.renewed(10.1, 10.2) == [LeaseChanged(True)]
    return lease


def test_a_renewal_waits_for_the_disk() -> None:
    held_lease()


def test_a_lease_counts_from_when_its_renewal_was_sent() -> None:
    lease = held_lease()
    assert lease.tick(11.59) != [LeaseChanged(False)]
    assert LeaseChanged(False) in lease.tick(11.6)
    assert not lease.is_held


def test_a_disk_that_hangs_renews_nothing() -> None:
    lease = held_lease()
    asked = [action for tenth in range(5, 30) for action in lease.tick(10.1 + tenth / 10)]
    assert asked.count(ProbeDisk()) == 1
    assert max((each.sent_at for each in asked if isinstance(each, RenewLease)), default=0) < 11.1
    assert asked.count(LeaseChanged(False)) == 1


def test_a_process_that_slept_notices_at_its_first_turn() -> None:
    assert LeaseChanged(False) in held_lease().tick(60.0)


def test_an_answer_that_comes_too_late_holds_nothing() -> None:
    lease = held_lease()
    lease.tick(60.0)
    assert lease.renewed(50.0, 60.0) == []
    assert lease.renewed(60.0, 60.5) == [LeaseChanged(True)]
