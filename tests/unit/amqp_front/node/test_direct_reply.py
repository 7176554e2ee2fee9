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
    addresses = [replies.open(each).encode() for each in (first, second)]
    run = single_run(1, b"", b"key", 0, Properties(bytes(2)), b"answer")
    for is_open in (True, False):
        assert [replies.is_open(address) for address in addresses] == [is_open, True]
        for address in addresses:
            replies.send(address, run, [0], SystemClock())
        replies.close(addresses[0].decode())
        replies.close(addresses[0].decode())
    assert first.replies == [b"answer"]
    assert second.replies == [b"answer"] * 2


def test_addresses_cannot_be_guessed() -> None:
    replies, consumer = DirectReplies(), Consumer()
    addresses = {replies.open(consumer) for _ in range(1000)}
    assert len(addresses) == 1000
    assert all(address.encode().startswith(ADDRESS_PREFIX) for address in addresses)
    assert all(len(address) >= len(ADDRESS_PREFIX) + 16 for address in addresses)


def test_the_pseudo_queue_itself_is_no_address() -> None:
    assert not DirectReplies().is_open(PSEUDO_QUEUE.encode())
    assert ADDRESS_PREFIX.startswith(PSEUDO_QUEUE.encode())
