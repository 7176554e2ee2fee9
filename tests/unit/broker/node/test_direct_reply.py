"""Addresses of direct replies, and the way from node to node."""

from __future__ import annotations

from support.queue_samples import records

from routelog.broker.node.direct_reply import (
    ADDRESS_PREFIX,
    PSEUDO_QUEUE,
    DirectReplies,
    node_token,
    token_of,
)
from routelog.log_backend import Records, SystemClock


class Consumer:
    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def reply(self, records: Records) -> None:
        self.replies += [records.body(at) for at in range(records.count)]


class Run:
    """Published messages: one."""

    def parts(self, selections: list[list[int]], attributes: int, time: int) -> list[Records]:
        return [records("answer") for _ in selections]


class Others:
    """Nodes that are known, and what is sent to them."""

    def __init__(self, *nodes: str) -> None:
        self.tokens = {node_token(node): node for node in nodes}
        self.sent: list[tuple[str, bytes, bytes]] = []

    def takes_replies(self, token: bytes) -> bool:
        return token in self.tokens

    def ask_whether_open(self, address: bytes) -> bool:
        return token_of(address) in self.tokens

    def send_reply(self, token: bytes, address: bytes, records: Records) -> None:
        self.sent.append((self.tokens[token], address, records.body(0)))


def test_an_address_leads_to_its_consumer_until_it_is_closed() -> None:
    replies, first, second = DirectReplies(), Consumer(), Consumer()
    addresses = [replies.open(each).encode() for each in (first, second)]
    for is_open in (True, False):
        assert [replies.is_open(address) for address in addresses] == [is_open, True]
        assert replies.asked(addresses[0]) is is_open
        for address in addresses:
            replies.send(address, Run(), [0], SystemClock())
        replies.close(addresses[0].decode())
        replies.close(addresses[0].decode())
    assert first.replies == [b"answer"]
    assert second.replies == [b"answer"] * 2


def test_an_address_of_another_node_leads_there() -> None:
    here, there, consumer = DirectReplies("n1"), DirectReplies("n2"), Consumer()
    address = there.open(consumer).encode()
    assert not here.is_open(address)
    here.send(address, Run(), [0], SystemClock())
    here.others = others = Others("n2")
    assert here.is_open(address)
    assert here.asked(address)
    here.send(address, Run(), [0], SystemClock())
    assert others.sent == [("n2", address, b"answer")]
    there.deliver(address, records("answer"))
    assert consumer.replies == [b"answer"]


def test_what_is_no_address_of_a_known_node_is_nobodys() -> None:
    here, others = DirectReplies("n1"), Others("n2")
    here.others = others
    stale, unknown = DirectReplies("n1"), DirectReplies("n3")
    addresses = [each.open(Consumer()).encode() for each in (stale, unknown)]
    addresses += [ADDRESS_PREFIX, ADDRESS_PREFIX + b"a.b==", addresses[0] + b"=", b"q"]
    for address in addresses:
        assert not here.is_open(address)
        assert not here.asked(address)
        here.send(address, Run(), [0], SystemClock())
    assert others.sent == []


def test_addresses_cannot_be_guessed() -> None:
    replies, consumer = DirectReplies(), Consumer()
    addresses = {replies.open(consumer) for _ in range(1000)}
    assert len(addresses) == 1000
    assert all(address.encode().startswith(ADDRESS_PREFIX) for address in addresses)
    assert all(token_of(address.encode()) == node_token("") for address in addresses)
    words = {address.split(".")[-1] for address in addresses}
    assert len(words) == 1000


def test_the_pseudo_queue_itself_is_no_address() -> None:
    assert not DirectReplies().is_open(PSEUDO_QUEUE.encode())
    assert ADDRESS_PREFIX.startswith(PSEUDO_QUEUE.encode())
