"""Two nodes prove to each other that they know the secret; whoever does not is a stranger."""

import msgspec
import pytest

from routelog.mirror_cluster.links.introduction import (
    DialerIntroduction,
    Introduced,
    ListenerIntroduction,
    Opening,
    Purpose,
    Stranger,
    take_frame,
)

SECRET = b"s" * 32
A = Opening("orders", "a", "b", 1, Purpose.REPLICATION, b"1" * 32)
B = Opening("orders", "b", "", 2, 0, b"2" * 32)


def frame(octets: bytes) -> bytes:
    buffer = bytearray(octets)
    taken = take_frame(buffer)
    assert taken is not None
    assert not buffer
    return taken


def introduce(
    dialer: Opening = A,
    listener: Opening = B,
    *,
    dialer_secret: bytes = SECRET,
    listener_secret: bytes = SECRET,
) -> tuple[Introduced, Introduced]:
    """Who the listener is for the dialer, and the dialer for the listener."""
    calling = DialerIntroduction(dialer, dialer_secret)
    called = ListenerIntroduction(listener, listener_secret)
    proof = calling.opened(frame(called.opened(frame(calling.first))))
    last, dialer_found = called.proved(frame(proof))
    nothing, listener_found = calling.proved(frame(last))
    assert nothing == b""
    return listener_found, dialer_found


def test_both_know_the_other_afterwards() -> None:
    assert introduce() == (
        Introduced("b", 2, Purpose.REPLICATION, 1),
        Introduced("a", 1, Purpose.REPLICATION, 1),
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cluster": "other"}, "of cluster 'other'"),
        ({"to": "c"}, "means 'c'"),
        ({"nonce": b"short"}, "no nonce"),
        ({"nonce": B.nonce}, "no nonce"),
        ({"purpose": 99}, "purpose 99"),
        ({"versions": (2, 3)}, "speaks versions"),
    ],
)
def test_a_node_that_does_not_belong_here_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(Stranger, match=told):
        introduce(msgspec.structs.replace(A, **changes))


def test_the_newest_version_that_both_speak_is_spoken() -> None:
    newer = msgspec.structs.replace(B, versions=(1, 4))
    assert [each.version for each in introduce(listener=newer)] == [1, 1]
    both = msgspec.structs.replace(A, versions=(2, 3)), msgspec.structs.replace(B, versions=(1, 9))
    assert [each.version for each in introduce(*both)] == [3, 3]


def test_who_dials_without_the_secret_is_refused_and_learns_nothing_of_it() -> None:
    calling, called = DialerIntroduction(A, b"x" * 32), ListenerIntroduction(B, SECRET)
    answer = called.opened(frame(calling.first))
    assert b"proof" not in answer
    # No secret has gone into it, so that nothing can be tried on it.
    assert answer == ListenerIntroduction(B, b"y" * 32).opened(frame(calling.first))
    with pytest.raises(Stranger, match="secret"):
        called.proved(frame(calling.opened(frame(answer))))


def test_who_listens_without_the_secret_is_refused() -> None:
    calling, knows = DialerIntroduction(A, SECRET), ListenerIntroduction(B, SECRET)
    proof = calling.opened(frame(knows.opened(frame(calling.first))))
    with pytest.raises(Stranger, match="secret"):  # the dialer's own, sent back
        calling.proved(frame(proof))
    called = ListenerIntroduction(B, b"x" * 32)
    called.opened(frame(calling.first))
    with pytest.raises(Stranger, match="secret"):
        called.proved(frame(proof))


def test_what_was_said_once_proves_nothing_the_next_time() -> None:
    calling, called = DialerIntroduction(A, SECRET), ListenerIntroduction(B, SECRET)
    last = calling.opened(frame(called.opened(frame(calling.first))))
    again = ListenerIntroduction(msgspec.structs.replace(B, nonce=b"3" * 32), SECRET)
    again.opened(frame(calling.first))
    with pytest.raises(Stranger, match="secret"):
        again.proved(frame(last))
    with pytest.raises(Stranger):
        ListenerIntroduction(B, SECRET).proved(frame(last))


def test_nodes_have_the_same_lease() -> None:
    slow, quick = (msgspec.structs.replace(A, lease_seconds=seconds) for seconds in (4, 2))
    told = "a has cluster_lease_seconds = 4, this node 2"
    with pytest.raises(Stranger, match=told):
        introduce(slow, msgspec.structs.replace(B, lease_seconds=2))
    introduce(quick, msgspec.structs.replace(B, lease_seconds=2))
    introduce(A, msgspec.structs.replace(B, lease_seconds=2))  # an operator, or a standby


def test_a_node_that_answers_under_another_name_is_refused() -> None:
    calling = DialerIntroduction(A, SECRET)
    other = ListenerIntroduction(msgspec.structs.replace(B, node="c"), SECRET)
    with pytest.raises(Stranger, match="means 'b'"):
        other.opened(frame(calling.first))


@pytest.mark.parametrize(
    "octets", [b"", b"{", b"[]", b'{"cluster": 1}', b"\xff", b'{"proof": "!"}']
)
def test_what_is_no_introduction_is_refused(octets: bytes) -> None:
    with pytest.raises(Stranger):
        ListenerIntroduction(B, SECRET).opened(octets)
    with pytest.raises(Stranger):
        DialerIntroduction(A, SECRET).opened(octets)
    with pytest.raises(Stranger):
        DialerIntroduction(A, SECRET).proved(octets)
    with pytest.raises(Stranger):
        ListenerIntroduction(B, SECRET).proved(octets)


def test_frames_are_taken_whole_however_they_come() -> None:
    first = DialerIntroduction(A, SECRET).first
    buffer = bytearray()
    for octet in first:
        assert take_frame(buffer) is None
        buffer.append(octet)
    buffer += b"rest"
    assert take_frame(buffer) == first[4:]
    assert buffer == b"rest"
    with pytest.raises(Stranger, match="an introduction of 1,347,703,880 bytes"):
        take_frame(bytearray(b"HTTP/1.1"))  # as of another protocol
