"""Connections, channels and consumers as operators see them, and the view that lists and closes them."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.connections.connection_methods import State
from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.unacked import Unacked
from routelog.amqp_front.wire.errors import CONNECTION_FORCED, HardError
from routelog.amqp_front.wire.frame_cutter import FRAME_OVERHEAD
from routelog.broker import ClientSocket, distinguished_name, ends_name
from routelog.vhosts import ChannelSnapshot, ConnectionSnapshot, ConsumerSnapshot


class OperatorView:
    """Connections that are in a vhost.

    Args:
        connections: all connections, shared with the broker.
        opening: those that are not in a vhost yet.
    """

    def __init__(
        self, connections: Collection[Connection], opening: Collection[Connection]
    ) -> None:
        self._connections = connections
        self._opening = opening

    @property
    def count(self) -> int:
        """The number of connections."""
        return len(self._connections) - len(self._opening)

    def connections(self) -> list[Connection]:
        """Handles of all connections that are not being closed, for the other methods."""
        return [each for each in list(self._connections) if each.state is State.OPEN]

    def name(self, connection: Connection) -> str:
        """The name of a connection, as in RabbitMQ: the client's address, then the broker's."""
        return ends_name(connection.socket)

    def describe(self, connection: Connection) -> ConnectionSnapshot:
        """A snapshot of a connection."""
        return connection_snapshot(connection)

    def channels(self, connection: Connection) -> Iterator[ChannelSnapshot]:
        """The channels of a connection."""
        return channel_snapshots(connection)

    def consumers(self, connection: Connection) -> Iterator[ConsumerSnapshot]:
        """The consumers of a connection."""
        return consumer_snapshots(connection)

    def close(self, connection: Connection, reason: str) -> None:
        """Close a connection with 320."""
        connection.shut_down(HardError(CONNECTION_FORCED, reason))

    def close_all(self, belongs: Callable[[Connection], bool], reason: str) -> None:
        """Close the connections of a deleted vhost or user."""
        for connection in self.connections():
            if belongs(connection):
                self.close(connection, reason)


def connection_snapshot(connection: Connection) -> ConnectionSnapshot:
    """A snapshot of a connection that is in a vhost."""
    peer, own = _ends(connection.socket)
    identity = connection.socket.identity if connection.socket is not None else None
    properties: dict[str, Any] = msgspec.json.decode(identity.properties) if identity else {}
    return ConnectionSnapshot(
        name=ends_name(connection.socket),
        user=connection.user,
        vhost=connection.vhost.name,
        peer_host=peer[0],
        peer_port=peer[1],
        host=own[0],
        port=own[1],
        state="blocked" if connection.hold.reasons else "running",
        blocked_by=tuple(sorted(connection.hold.reasons)),
        channels=len(connection.channels),
        channel_max=connection.channels.channel_max,
        frame_max=connection.body_frame_max + FRAME_OVERHEAD,
        heartbeat=connection.heartbeat_seconds,
        mechanism=identity.mechanism if identity else "",
        connected_at=identity.connected_at if identity else 0,
        client_properties=properties,
        is_tls=connection.socket is not None and connection.socket.is_tls,
        traffic=connection.traffic,
        tls=_tls(connection.socket),
        unsent_bytes=0 if connection.socket is None else connection.socket.unsent_bytes,
    )


def channel_snapshots(connection: Connection) -> Iterator[ChannelSnapshot]:
    """The channels of a connection."""
    for channel in connection.channels:
        consumption, transactions = channel.consumption, channel.transactions
        messages, acks = (0, 0) if transactions is None else transactions.uncommitted
        yield ChannelSnapshot(
            number=channel.number,
            confirm=channel.publisher.confirming,
            transactional=channel.transactions is not None,
            consumers=len(consumption.consumers),
            unacknowledged=consumption.unacked.count,
            prefetch=consumption.prefetch,
            channel_prefetch=consumption.channel_prefetch,
            is_flowing=channel.flow_active,
            counters=channel.counters,
            unconfirmed=channel.publisher.unconfirmed,
            uncommitted_messages=messages,
            uncommitted_acks=acks,
            oldest_held=_oldest_held(consumption.unacked),
        )


def _oldest_held(unacked: Unacked) -> tuple[str, float]:
    first = next(iter(unacked), None)
    holder = None if first is None else first.consumer
    if first is None or not isinstance(holder, ChannelConsumer) or holder.lease is None:
        return "", 0.0
    return holder.queue.name, holder.lease.held_seconds(first.first_tag)


def consumer_snapshots(connection: Connection) -> Iterator[ConsumerSnapshot]:
    """The consumers of a connection."""
    for channel in connection.channels:
        for consumer in list(channel.consumption.consumers.values()):
            yield _consumer_snapshot(channel, consumer)


def _consumer_snapshot(channel: Channel, consumer: ChannelConsumer) -> ConsumerSnapshot:
    return ConsumerSnapshot(
        channel=channel.number,
        queue=consumer.queue.name,
        tag=consumer.tag,
        group=consumer.group,
        ack_required=not consumer.no_ack,
        exclusive=consumer.exclusive,
        prefetch=consumer.prefetch,
        priority=consumer.priority,
        activity=consumer.queue.activity(consumer),
        unacknowledged=consumer.unacked,
        timed_out=consumer.timed_out,
    )


def _tls(client: ClientSocket | None) -> dict[str, object]:
    version, suite = (client.cipher if client is not None else None) or (None, None)
    certificate = client.certificate if client is not None else None
    subject = issuer = validity = None
    if certificate is not None:
        subject, issuer = (distinguished_name(certificate, each) for each in ("subject", "issuer"))
        validity = " - ".join(str(certificate.get(each)) for each in ("notBefore", "notAfter"))
    return {
        "ssl_protocol": None if version is None else version.lower(),
        "ssl_cipher": suite,
        "peer_cert_subject": subject,
        "peer_cert_issuer": issuer,
        "peer_cert_validity": validity,
    }


def _ends(client: ClientSocket | None) -> tuple[tuple[str, int], tuple[str, int]]:
    return client.ends() if client is not None else (("", 0), ("", 0))
