"""A broker that stores and routes nothing: what remains is the load generator's own ceiling."""

import contextlib
import select
import socket
from collections.abc import Callable, Iterator

from pamqp import base, commands, exceptions, frame, header

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.traffic.frames import (
    ACK_BYTES,
    ACK_RECORD,
    BODY_CYCLE,
    CHANNEL,
    CLOSE_FRAME,
    ack_frame,
    content_frames,
)
from routelog.benchmarks.traffic.processes import Processes

_READ_BYTES = 1_048_576
_CONSUMER_TAG = "c00000"
_TAG_OFFSET = 7 + 4 + 1 + len(_CONSUMER_TAG)
_CLOSE_OK = frame.marshal(commands.Connection.CloseOk(), 0)

_REPLIES: dict[str, Callable[[], base.Frame]] = {
    "Connection.StartOk": lambda: commands.Connection.Tune(2047, 131_072, 0),
    "Connection.Open": commands.Connection.OpenOk,
    "Channel.Open": commands.Channel.OpenOk,
    "Queue.Declare": lambda: commands.Queue.DeclareOk("", 0, 0),
    "Queue.Delete": lambda: commands.Queue.DeleteOk(0),
    "Basic.Qos": commands.Basic.QosOk,
    "Basic.Consume": lambda: commands.Basic.ConsumeOk(_CONSUMER_TAG),
    "Confirm.Select": commands.Confirm.SelectOk,
}


class _Deliveries:
    """A cycle of deliveries for consecutive tags; only the upper tag bytes are written again."""

    def __init__(self, routing_key: str, body_bytes: int, persistent: bool) -> None:
        cycle = [
            frame.marshal(
                commands.Basic.Deliver(_CONSUMER_TAG, i + 1, False, "", routing_key), CHANNEL
            )
            + content_frames(i, body_bytes, persistent)
            for i in range(BODY_CYCLE)
        ]
        self.size = len(cycle[0])
        self._frames = bytearray(b"".join(cycle))

    def encoded(self, first_index: int, available: int) -> tuple[memoryview, int]:
        """Deliveries up to the end of the cycle at most, and how many they are."""
        within = first_index % BODY_CYCLE
        count = min(available, BODY_CYCLE - within)
        if within == 0:
            self._write_tags(first_index)
        return memoryview(self._frames)[within * self.size : (within + count) * self.size], count

    def _write_tags(self, first_index: int) -> None:
        low = (first_index // BODY_CYCLE).to_bytes(7, "big")
        # The last tag of a cycle is a multiple of 256, so its upper bytes are one further.
        high = (first_index // BODY_CYCLE + 1).to_bytes(7, "big")
        for column in range(7):
            values = bytes([low[column]]) * (BODY_CYCLE - 1) + bytes([high[column]])
            self._frames[_TAG_OFFSET + column :: self.size] = values


class _Peer:
    """A client connection, first spoken to in methods, later counted in bytes."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self.filled = 0
        self.on_bytes: Callable[[_Peer], None] | None = None
        self.prefetch = 0
        self.with_confirms = False

    def take(self, used: int) -> None:
        self.buffer[: self.filled - used] = self.buffer[used : self.filled]
        self.filled -= used


class NullBroker:
    """Serves one case at a time on one thread: counts publishes, hands out ready deliveries."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._peers: dict[int, _Peer] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._forget_case()

    def _forget_case(self) -> None:
        self._deliveries: _Deliveries | None = None
        self._publish_bytes = 0
        self._published = 0
        self._delivered = 0
        self._settled = 0
        self._consumer: _Peer | None = None
        self._unsent = memoryview(b"")

    def run(self) -> None:
        """Serve until the process is ended."""
        while True:
            for descriptor, events in self._poll.poll(0 if self._deliver() else None):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif events != select.POLLOUT:
                    self._read(self._peers[descriptor])

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = self._peers[client.fileno()] = _Peer(client)
        peer.on_bytes = self._converse
        self._poll.register(client, select.POLLIN)

    def _read(self, peer: _Peer) -> None:
        try:
            count = peer.socket.recv_into(peer.buffer[peer.filled :])
        except ConnectionResetError:
            count = 0
        if count == 0:
            self._drop(peer)
            return
        peer.filled += count
        if peer.on_bytes:
            peer.on_bytes(peer)

    def _drop(self, peer: _Peer) -> None:
        self._poll.unregister(peer.socket)
        del self._peers[peer.socket.fileno()]
        peer.socket.close()
        if peer is self._consumer:
            self._consumer = None

    def _converse(self, peer: _Peer) -> None:
        while peer.filled:
            data = bytes(peer.buffer[: min(peer.filled, 4096)])
            try:
                used, channel, value = frame.unmarshal(data)
            except exceptions.UnmarshalingException:
                return
            if isinstance(value, commands.Basic.Publish):
                self._begin_publishes(peer, value, data)
                return
            peer.take(used)
            self._answer(peer, channel, value)

    def _answer(self, peer: _Peer, channel: int, value: frame.FrameTypes) -> None:
        if isinstance(value, header.ProtocolHeader):
            peer.socket.sendall(frame.marshal(commands.Connection.Start(0, 9, {}), 0))
        elif isinstance(value, commands.Connection.Close):
            peer.socket.sendall(_CLOSE_OK)
        elif value.name in _REPLIES:
            peer.socket.sendall(frame.marshal(_REPLIES[value.name](), channel))
        if isinstance(value, commands.Queue.Declare):
            self._forget_case()
        elif isinstance(value, commands.Basic.Qos):
            peer.prefetch = value.prefetch_count or 0
        elif isinstance(value, commands.Confirm.Select):
            peer.with_confirms = True
        elif isinstance(value, commands.Basic.Consume):
            self._consumer = peer
            peer.on_bytes = self._count_acks

    def _begin_publishes(self, peer: _Peer, publish: commands.Basic.Publish, data: bytes) -> None:
        size, _, _ = frame.unmarshal(data)
        header_size, _, content = frame.unmarshal(data[size:])
        if not isinstance(content, header.ContentHeader):
            raise TypeError(content.name)
        self._publish_bytes = size + header_size + 7 + content.body_size + 1
        persistent = content.properties.delivery_mode == 2
        self._deliveries = _Deliveries(publish.routing_key, content.body_size, persistent)
        peer.on_bytes = self._count_publishes
        self._count_publishes(peer)

    def _count_publishes(self, peer: _Peer) -> None:
        closing = self._is_closing(peer)
        count = (peer.filled - closing) // self._publish_bytes
        peer.take(count * self._publish_bytes + closing)
        self._published += count
        if peer.with_confirms and count:
            peer.socket.sendall(ack_frame(self._published, multiple=count > 1))
        if closing:
            peer.socket.sendall(_CLOSE_OK)

    def _count_acks(self, peer: _Peer) -> None:
        closing = self._is_closing(peer)
        whole = (peer.filled - closing) // ACK_BYTES * ACK_BYTES
        if whole:
            self._settled = ACK_RECORD.unpack_from(peer.buffer, whole - ACK_BYTES)[5]
        peer.take(whole + closing)
        if closing:
            peer.socket.sendall(_CLOSE_OK)

    def _is_closing(self, peer: _Peer) -> int:
        """The size of the closing frame when it is the last thing received, else 0."""
        size = len(CLOSE_FRAME)
        end = peer.filled
        return size if end >= size and peer.buffer[end - size : end] == CLOSE_FRAME else 0

    def _deliver(self) -> bool:
        """Send what one cycle allows; whether there is more to do without waiting."""
        consumer, deliveries = self._consumer, self._deliveries
        if consumer is None or deliveries is None:
            return False
        if not self._unsent:
            until = self._published
            if consumer.prefetch:
                until = min(until, self._settled + consumer.prefetch)
            if until == self._delivered:
                return False
            self._unsent, count = deliveries.encoded(self._delivered, until - self._delivered)
            self._delivered += count
        try:
            sent = consumer.socket.send(self._unsent, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        self._unsent = self._unsent[sent:]
        self._poll.modify(consumer.socket, select.POLLIN | (0 if sent else select.POLLOUT))
        return bool(sent)


@contextlib.contextmanager
def null_broker() -> Iterator[Broker]:
    """A null broker in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Processes() as processes:
        processes.start(lambda: NullBroker(listener).run())
        yield Broker(f"amqp://127.0.0.1:{listener.getsockname()[1]}/", is_plain=True)
