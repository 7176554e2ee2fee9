"""What a run is made of: how many of what, and how they behave."""

from dataclasses import dataclass
from enum import StrEnum

from pamqp.common import FieldValue

from routelog.benchmarks.traffic.frames import BODY_BYTES_MIN
from routelog.benchmarks.traffic.unexpected import BadRequest

# A broker that takes messages faster than it delivers them would otherwise fill its memory, and
# the figure would be that of its backlog. Both bounds are far above what any socket buffers.
OUTSTANDING_MESSAGES_MAX = 200_000
OUTSTANDING_BYTES_MAX = 64 * 1_048_576

QUEUES_MAX = 1_000_000  # names are numbered with six digits
KEYS_MAX = 1_000_000
PRODUCERS_MAX = 65_536  # a body has two bytes for the number of its producer


class ExchangeType(StrEnum):
    """What messages are published to; a type that the broker adds is said in words of its own."""

    DEFAULT = "default"
    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"


@dataclass(frozen=True)
class Workload:
    """Producers, queues and consumers on one broker; see `Topology` for who has to do with whom.

    Args:
        consumers: 0 leaves everything in the queues; then there have to be confirms.
        durable: durable queues and persistent messages, or none of either.
        confirms_in_flight: of each producer; 0 means no publisher confirms.
        ack_every: deliveries settled by one basic.ack; 0 means automatic acknowledgement.
        prefetch: unsettled deliveries allowed for each consumer; 0 means no limit.
        keys: different routing keys in use; 0 means one for each binding.
        bindings: of each queue's group, in all; 0 means one for each group.
        fan_out: queues that each message reaches; 0 means all with a fanout exchange, else one.
        headers: headers in each message.
        with_properties: whether messages carry every property that a client may set freely.
        queue_arguments: of every queue.declare.
        messages: published in all, then the run ends; 0 means until the time is over.
        run_ahead: messages that the producers may be ahead of the consumers; 0 means 200,000, or 64 MiB.
        each: every publish and every acknowledgement is a write of its own.
    """

    body_bytes: int = 100
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    durable: bool = False
    confirms_in_flight: int = 0
    ack_every: int = 0
    prefetch: int = 0
    exchange_type: ExchangeType = ExchangeType.DEFAULT
    keys: int = 0
    bindings: int = 0
    fan_out: int = 0
    headers: int = 0
    with_properties: bool = False
    queue_arguments: tuple[tuple[str, FieldValue], ...] = ()
    messages: int = 0
    run_ahead: int = 0
    each: bool = False

    @property
    def reads_log(self) -> bool:
        """Whether the queues are streams, which are read from their beginning."""
        return ("x-queue-type", "stream") in self.queue_arguments

    @property
    def copies(self) -> int:
        """Queues that each message reaches."""
        return self.fan_out or (self.queues if self.exchange_type is ExchangeType.FANOUT else 1)

    @property
    def groups(self) -> int:
        """Sets of queues that get the same messages."""
        return self.queues // self.copies

    @property
    def binding_count(self) -> int:
        """Bindings of one queue of each group, in all; with the default exchange they are there."""
        return max(self.bindings, self.groups)

    @property
    def key_count(self) -> int:
        """Different routing keys in use."""
        return self.keys or self.binding_count

    def outstanding_max(self, publish_bytes: int) -> int:
        """Messages that the producers may be ahead of the consumers."""
        fitting = min(OUTSTANDING_MESSAGES_MAX, OUTSTANDING_BYTES_MAX // publish_bytes)
        return self.run_ahead or max(1, fitting // self.copies)

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            BadRequest: the options contradict each other, or a number is out of range.
        """
        for wrong, reason in self._contradictions():
            if wrong:
                raise BadRequest(reason)

    def _contradictions(self) -> list[tuple[bool, str]]:
        kind = self.exchange_type
        is_default = kind is ExchangeType.DEFAULT
        by_binding = kind in (ExchangeType.DIRECT, ExchangeType.DEFAULT)
        return [
            (self.body_bytes < BODY_BYTES_MIN, f"a message has {BODY_BYTES_MIN} bytes at least"),
            (not 1 <= self.producers <= PRODUCERS_MAX, f"1 to {PRODUCERS_MAX} producers"),
            (not 1 <= self.queues <= QUEUES_MAX, f"1 to {QUEUES_MAX} queues"),
            (not 0 <= self.prefetch <= 65_535, "prefetch is at most 65535"),
            (
                not self.consumers and not self.confirms_in_flight,
                "without consumers there have to be confirms: nothing else tells the speed",
            ),
            (
                bool(self.prefetch) and self.ack_every > self.prefetch,
                "an ack that waits for more messages than the prefetch allows never comes",
            ),
            (is_default and bool(self.bindings), "the default exchange takes no bindings"),
            (is_default and self.copies > 1, "fan-out needs an exchange that is not the default"),
            (
                kind is ExchangeType.FANOUT and self.copies != self.queues,
                "a fanout exchange reaches all queues",
            ),
            (bool(self.queues % self.copies), "the queues have to be a multiple of the fan-out"),
            (self.key_count < self.groups, "every queue needs a routing key of its own"),
            (self.key_count > KEYS_MAX, f"at most {KEYS_MAX} routing keys"),
            (
                by_binding and self.key_count > self.binding_count,
                f"with a {kind} exchange a routing key without a binding leads nowhere",
            ),
        ]
