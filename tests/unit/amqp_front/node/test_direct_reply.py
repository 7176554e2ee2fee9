"""Addresses of direct replies."""

from routelog.amqp_front.node.direct_reply import ADDRESS_PREFIX, PSEUDO_QUEUE, DirectReplies
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import single_run
from routelog.log_backend import Records, SystemClock


class Consumer:
    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def reply(self, records: Records) -> None:
        self.replies += [records.body(at) for at in range(records.count)]


def test_an_address_leads_to_its_consumer_until_it_is_closed() -> None:
    replies, first, second = DirectReplies(), Consumer(), Consumer()
    one, other = replies.open(first), replies.open(second)
    assert replies.find(one.encode()) is first
    assert replies.find(other.encode()) is second
    replies.close(one)
    replies.close(one)
    assert replies.find(one.encode()) is None
    assert replies.find(other.encode()) is second


def test_what_is_published_to_an_address_reaches_its_consumer_until_it_is_closed() -> None:
    replies, consumer, clock = DirectReplies(), Consumer(), SystemClock()
    address = replies.open(consumer)
    key = address.encode()
    run = single_run(1, b"", key, 0, Properties(bytes(2)), b"answer")
    assert replies.send(key, run, clock)
    replies.close(address)
    assert not replies.send(key, run, clock)
    assert consumer.replies == [b"answer"]


def test_addresses_cannot_be_guessed() -> None:
    replies, consumer = DirectReplies(), Consumer()
    addresses = {replies.open(consumer) for _ in range(1000)}
    assert len(addresses) == 1000
    assert all(address.encode().startswith(ADDRESS_PREFIX) for address in addresses)
    assert all(len(address) >= len(ADDRESS_PREFIX) + 16 for address in addresses)


def test_the_pseudo_queue_itself_is_no_address() -> None:
    assert DirectReplies().find(PSEUDO_QUEUE.encode()) is None
    assert ADDRESS_PREFIX.startswith(PSEUDO_QUEUE.encode())
