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
    answer = called.opened(frame(calling.first))
    last, listener_found = calling.answered(frame(answer))
    return listener_found, called.proved(frame(last))


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


@pytest.mark.parametrize("side", ["dialer_secret", "listener_secret"])
def test_who_does_not_know_the_secret_is_refused_by_the_other(side: str) -> None:
    with pytest.raises(Stranger, match="secret"):
        introduce(**{side: b"x" * 32})


def test_the_listeners_proof_is_no_proof_of_the_dialer() -> None:
    calling = DialerIntroduction(A, SECRET)
    called = ListenerIntroduction(B, SECRET)
    answer = msgspec.json.decode(frame(called.opened(frame(calling.first))))
    sent_back = msgspec.json.encode({"proof": answer["proof"]})
    with pytest.raises(Stranger, match="secret"):
        called.proved(sent_back)


def test_what_was_said_once_proves_nothing_the_next_time() -> None:
    calling, called = DialerIntroduction(A, SECRET), ListenerIntroduction(B, SECRET)
    last, _ = calling.answered(frame(called.opened(frame(calling.first))))
    again = ListenerIntroduction(msgspec.structs.replace(B, nonce=b"3" * 32), SECRET)
    again.opened(frame(calling.first))
    with pytest.raises(Stranger, match="secret"):
        again.proved(frame(last))
    with pytest.raises(Stranger):
        ListenerIntroduction(B, SECRET).proved(frame(last))


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
        DialerIntroduction(A, SECRET).answered(octets)
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
