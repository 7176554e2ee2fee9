"""What clients were told, against what queues have in the end."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from simulation.checker import Violation
from simulation.fronts.client import Delivered, Publish


@dataclass
class Sent:
    """A message of the queues that stay.

    Attributes:
        lane: of its channel; order holds in it.
        queues: where it belongs.
        confirmed: None: nobody knows.
        settled: by queue: the epoch in which it was settled, when that is sure; 0: perhaps it was.
        last: by queue: the epoch in which it was delivered last.
    """

    body: bytes
    lane: int
    queues: tuple[str, ...]
    confirmed: bool | None = None
    settled: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.body.strip().decode()


class Ledger:
    """See the module.

    Args:
        padding: how long messages are at least.
    """

    def __init__(self, padding: int) -> None:
        self._padding = padding
        self.sent: dict[bytes, Sent] = {}
        self.counts = Counter[str]()

    def wrong(self, text: str) -> NoReturn:
        """A client is told what must not be."""
        raise Violation(text)

    def new_body(self) -> bytes:
        """The body of the next message: no other one has it."""
        return (b"%d" % (len(self.sent) + 1)).ljust(self._padding)

    def add(self, sent: Sent, published: Publish) -> None:
        """A message is published."""
        self.sent[sent.body] = sent

        def told(outcome: object) -> None:
            sent.confirmed = published.outcome.result()
            self.counts["confirms" if sent.confirmed else "no confirms"] += 1
            if sent.confirmed and published.is_returned:
                self.wrong(f"{sent} is returned, and {sent.queues} are there")

        published.outcome.add_done_callback(told)

    def delivered(self, queue: str, delivered: Delivered, epoch: int) -> Sent:
        """A client has got a message."""
        self.counts["deliveries"] += 1
        sent = self.sent.get(delivered.body)
        if sent is None or ("in" if queue == "out" else queue) not in sent.queues:
            self.wrong(f"{delivered.body.strip()!r} comes from {queue}")
        settled = sent.settled.get(queue, 0)
        if settled and epoch >= settled:
            self.wrong(f"{sent} comes from {queue} in epoch {epoch}, and was settled in {settled}")
        before = sent.last.get(queue)
        sent.last[queue] = epoch
        if delivered.redelivered:
            self.counts["redeliveries"] += 1
        elif before == epoch:
            self.wrong(f"{sent} comes twice from {queue} in epoch {epoch}, unmarked")
        elif before is not None:
            self.counts["unmarked in another epoch"] += 1
        return sent

    def check(self, found: dict[str, list[bytes]]) -> None:
        """Compare what is left in all queues that stay, in their order."""
        counts = {queue: Counter(bodies) for queue, bodies in found.items()}
        for sent in self.sent.values():
            for queue in sent.queues:
                self._check(sent, queue, counts)
        for queue, bodies in found.items():
            if queue == "out":
                continue  # transactions move what comes again, too
            last: dict[int, bytes] = {}
            for body in bodies:
                sent = self.sent[body]
                before = last.get(sent.lane)
                if before is not None and int(before) > int(body):
                    self.wrong(f"{queue} has {before.strip()!r} before {body.strip()!r}")
                last[sent.lane] = body

    def _check(self, sent: Sent, queue: str, counts: dict[str, Counter[bytes]]) -> None:
        count = counts[queue][sent.body]
        if queue == "in":
            count += counts["out"][sent.body]
        if count > 1:
            self.wrong(f"{sent} is in {queue} {count} times")
        if queue != "in" and count and sent.settled.get(queue):
            self.wrong(f"{sent} is in {queue}, and was settled")
        is_settled = queue != "in" and queue in sent.settled
        if sent.confirmed and not count and not is_settled:
            self.wrong(f"{sent} was confirmed, and is not in {queue}")
