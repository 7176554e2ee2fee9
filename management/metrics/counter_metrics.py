"""Metrics of what the data plane counts, by RabbitMQ's names: totals of the node, and of each object."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from routelog.management.metrics.metric import Groups, Metric, head, labelled, sample_text
from routelog.vhosts import (
    ChurnCounters,
    ExchangeCounters,
    MessageCounters,
    NodeCounters,
    TrafficCounters,
)

_Of = TypeVar("_Of")
_Owner = TypeVar("_Owner")

CHURN: Groups[ChurnCounters] = {
    "connection_churn_metrics": (
        Metric(
            "rabbitmq_connections_opened_total",
            "Connections that logged in",
            lambda churn: churn.connection_created,
        ),
        Metric(
            "rabbitmq_connections_closed_total",
            "Connections that ended",
            lambda churn: churn.connection_closed,
        ),
        Metric(
            "rabbitmq_channels_opened_total",
            "Channels that were opened",
            lambda churn: churn.channel_created,
        ),
        Metric(
            "rabbitmq_channels_closed_total",
            "Channels that ended",
            lambda churn: churn.channel_closed,
        ),
        Metric(
            "rabbitmq_queues_declared_total",
            "Declarations of queues, also of those that were there",
            lambda churn: churn.queue_declared,
        ),
        Metric(
            "rabbitmq_queues_created_total",
            "Queues that were made",
            lambda churn: churn.queue_created,
        ),
        Metric(
            "rabbitmq_queues_deleted_total",
            "Queues that were deleted",
            lambda churn: churn.queue_deleted,
        ),
    ),
}


def _deliveries(of: str) -> tuple[Metric[MessageCounters], ...]:
    # What clients took from queues, by channel and by queue.
    return (
        Metric(
            f"{of}_get_ack_total",
            "Messages taken by basic.get, to be acknowledged",
            lambda counters: counters.get,
        ),
        Metric(
            f"{of}_get_total",
            "Messages taken by basic.get, without acknowledgement",
            lambda counters: counters.get_no_ack,
        ),
        Metric(
            f"{of}_messages_delivered_ack_total",
            "Messages delivered to consumers, to be acknowledged",
            lambda counters: counters.deliver,
        ),
        Metric(
            f"{of}_messages_delivered_total",
            "Messages delivered to consumers, without acknowledgement",
            lambda counters: counters.deliver_no_ack,
        ),
        Metric(
            f"{of}_messages_redelivered_total",
            "Of all these, messages that were marked redelivered",
            lambda counters: counters.redeliver,
        ),
        Metric(
            f"{of}_messages_acked_total",
            "Messages that clients acknowledged",
            lambda counters: counters.ack,
        ),
        Metric(
            f"{of}_get_empty_total",
            "Calls of basic.get that found nothing",
            lambda counters: counters.get_empty,
        ),
    )


OF_CHANNELS: Groups[MessageCounters] = {
    "channel_exchange_metrics": (
        Metric(
            "rabbitmq_channel_messages_published_total",
            "Messages that clients published",
            lambda counters: counters.publish,
        ),
        Metric(
            "rabbitmq_channel_messages_confirmed_total",
            "Messages that were confirmed",
            lambda counters: counters.confirm,
        ),
        Metric(
            "rabbitmq_channel_messages_unroutable_returned_total",
            "Mandatory messages that reached no queue",
            lambda counters: counters.return_unroutable,
        ),
        Metric(
            "rabbitmq_channel_messages_unroutable_dropped_total",
            "Other messages that reached no queue",
            lambda counters: counters.drop_unroutable,
        ),
    ),
    "channel_queue_metrics": _deliveries("rabbitmq_channel"),
}

# Beside the first group, which RabbitMQ has by channel and exchange, these are those of its release 3.13.
OF_QUEUES: Groups[MessageCounters] = {
    "channel_queue_exchange_metrics": (
        Metric(
            "rabbitmq_queue_messages_published_total",
            "Messages that came to queues, dead letters included",
            lambda counters: counters.publish,
        ),
    ),
    "queue_delivery_metrics": _deliveries("rabbitmq_queue"),
}

OF_EXCHANGES: Groups[ExchangeCounters] = {
    "exchange_metrics": (
        Metric(
            "rabbitmq_exchange_messages_published_total",
            "Messages that clients published to an exchange",
            lambda counters: counters.publish_in,
        ),
        Metric(
            "routelog_exchange_messages_routed_total",
            "Messages that an exchange gave to queues, once for each",
            lambda counters: counters.publish_out,
        ),
    ),
}

OF_CONNECTIONS: Groups[TrafficCounters] = {
    "connection_coarse_metrics": (
        Metric(
            "rabbitmq_connection_incoming_bytes_total",
            "Bytes from clients",
            lambda traffic: traffic.recv_oct,
        ),
        Metric(
            "rabbitmq_connection_outgoing_bytes_total",
            "Bytes to clients",
            lambda traffic: traffic.send_oct,
        ),
    ),
    "connection_metrics": (
        Metric(
            "rabbitmq_connection_incoming_packets_total",
            "Reads from clients",
            lambda traffic: traffic.recv_cnt,
        ),
        Metric(
            "rabbitmq_connection_outgoing_packets_total",
            "Writes to clients",
            lambda traffic: traffic.send_cnt,
        ),
    ),
}

_GLOBAL: tuple[Metric[NodeCounters], ...] = (
    Metric(
        "rabbitmq_global_messages_received_total",
        "Messages that clients published",
        lambda node: node.channels.publish,
    ),
    Metric(
        "rabbitmq_global_messages_received_confirm_total",
        "Of these, messages that are to be confirmed",
        lambda node: node.channels.to_confirm,
    ),
    Metric(
        "rabbitmq_global_messages_routed_total",
        "Messages that came to queues",
        lambda node: sum(each.publish for each in node.queues.values()),
    ),
    Metric(
        "rabbitmq_global_messages_unroutable_dropped_total",
        "Messages, not mandatory, that reached no queue",
        lambda node: node.channels.drop_unroutable,
    ),
    Metric(
        "rabbitmq_global_messages_unroutable_returned_total",
        "Mandatory messages that reached no queue",
        lambda node: node.channels.return_unroutable,
    ),
    Metric(
        "rabbitmq_global_messages_confirmed_total",
        "Messages that were confirmed",
        lambda node: node.channels.confirm,
    ),
)

_GLOBAL_BY_TYPE: tuple[Metric[MessageCounters], ...] = (
    Metric(
        "rabbitmq_global_messages_delivered_total",
        "Messages that clients got",
        lambda all_: all_.deliver + all_.deliver_no_ack + all_.get + all_.get_no_ack,
    ),
    Metric(
        "rabbitmq_global_messages_delivered_consume_manual_ack_total",
        "Messages delivered to consumers, to be acknowledged",
        lambda counters: counters.deliver,
    ),
    Metric(
        "rabbitmq_global_messages_delivered_consume_auto_ack_total",
        "Messages delivered to consumers, without acknowledgement",
        lambda counters: counters.deliver_no_ack,
    ),
    Metric(
        "rabbitmq_global_messages_delivered_get_manual_ack_total",
        "Messages taken by basic.get, to be acknowledged",
        lambda counters: counters.get,
    ),
    Metric(
        "rabbitmq_global_messages_delivered_get_auto_ack_total",
        "Messages taken by basic.get, without acknowledgement",
        lambda counters: counters.get_no_ack,
    ),
    Metric(
        "rabbitmq_global_messages_get_empty_total",
        "Calls of basic.get that found nothing",
        lambda counters: counters.get_empty,
    ),
    Metric(
        "rabbitmq_global_messages_redelivered_total",
        "Messages that clients got, marked redelivered",
        lambda counters: counters.redeliver,
    ),
    Metric(
        "rabbitmq_global_messages_acknowledged_total",
        "Messages that clients acknowledged",
        lambda counters: counters.ack,
    ),
)

_DEAD_LETTERS: tuple[Metric[MessageCounters], ...] = (
    Metric(
        "rabbitmq_global_messages_dead_lettered_maxlen_total",
        "Messages that a full queue let go",
        lambda counters: counters.maxlen,
    ),
    Metric(
        "rabbitmq_global_messages_dead_lettered_expired_total",
        "Messages that expired",
        lambda counters: counters.expired,
    ),
    Metric(
        "rabbitmq_global_messages_dead_lettered_rejected_total",
        "Messages that clients rejected, not requeued",
        lambda counters: counters.rejected,
    ),
    Metric(
        "rabbitmq_global_messages_dead_lettered_delivery_limit_total",
        "Messages that came back too often",
        lambda counters: counters.delivery_limit,
    ),
)


def within(groups: Groups[_Of], find: Callable[[_Owner], _Of]) -> Groups[_Owner]:
    """The same groups, of what has the counters."""
    return {name: tuple(each.of(find) for each in metrics) for name, metrics in groups.items()}


def totals_text(node: NodeCounters) -> Iterator[str]:
    """What is summed up to the node while it is counted, of what is told of each object otherwise."""
    for metric in (each for group in OF_CHANNELS.values() for each in group):
        yield _text(metric, metric.read(node.channels))
    for metric in (each for group in OF_QUEUES.values() for each in group):
        yield _text(metric, sum(metric.read(each) or 0 for each in node.queues.values()))
    for traffic in (each for group in OF_CONNECTIONS.values() for each in group):
        yield _text(traffic, traffic.read(node.traffic))


def global_text(node: NodeCounters) -> Iterator[str]:
    """RabbitMQ's counters by protocol, and by type of queue."""
    labels = labelled({"protocol": "amqp091"})
    for of_node in _GLOBAL:
        yield _text(of_node, of_node.read(node), labels)
    for metric in _GLOBAL_BY_TYPE:
        yield _by_type(node, metric, {"protocol": "amqp091"})
    for metric in _DEAD_LETTERS:
        yield _by_type(node, metric, {})


def _by_type(node: NodeCounters, metric: Metric[MessageCounters], more: dict[str, str]) -> str:
    lines = (
        f"{metric.name}{labelled({**more, 'queue_type': f'rabbit_{kind}_queue'})} {metric.read(each)}\n"
        for kind, each in node.queues.items()
    )
    return head(metric.name, metric.kind, metric.help) + "".join(lines)


def _text(metric: Metric[_Of], value: float | None, labels: str = "") -> str:
    return sample_text(metric.name, metric.kind, metric.help, value, labels)
