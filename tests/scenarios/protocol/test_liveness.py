"""Heartbeats, and how a broker says goodbye."""

from __future__ import annotations

import threading
import time

import pytest
from pamqp import body, commands, header, heartbeat
from scenarios.clients.bad_input import Broker, assert_nobody_noticed
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import FRAME_BYTES_MAX, Dropped, RawClient, Silent, content_body

INTERVAL_SECONDS = 2
SLACK_SECONDS = 0.9


def frames_until(client: RawClient, deadline: float) -> list[object]:
    """Everything received up to a time, or to the end of the connection."""
    values: list[object] = []
    try:
        while True:
            values.append(client.receive(deadline - time.monotonic())[1])
    except (Dropped, Silent):
        return values


def test_a_silent_peer_is_dropped_after_two_and_before_three_intervals(
    broker: Broker, bystander: Bystander
):
    with RawClient(broker.host, broker.port) as client:
        client.open(beat=INTERVAL_SECONDS)
        begun = time.monotonic()
        client.wait_until_dropped(4 * INTERVAL_SECONDS)
        silent = time.monotonic() - begun
        assert 2 * INTERVAL_SECONDS - SLACK_SECONDS < silent < 3 * INTERVAL_SECONDS + SLACK_SECONDS
    assert_nobody_noticed(broker, bystander)


def test_a_peer_that_sends_heartbeats_is_kept_and_is_sent_some(broker: Broker):
    with RawClient(broker.host, broker.port) as client:
        client.open(beat=INTERVAL_SECONDS)
        received: list[object] = []
        for _ in range(7):
            client.send(heartbeat.Heartbeat())
            received += frames_until(client, time.monotonic() + INTERVAL_SECONDS / 2)
        client.open_channel()
    assert len(received) >= 3
    assert {type(value) for value in received} == {heartbeat.Heartbeat}


def test_any_traffic_counts_as_a_sign_of_life(broker: Broker):
    with RawClient(broker.host, broker.port) as client:
        client.open(beat=INTERVAL_SECONDS)
        client.open_channel()
        for _ in range(7):
            client.call(commands.Basic.Qos(prefetch_count=1), commands.Basic.QosOk)
            frames_until(client, time.monotonic() + INTERVAL_SECONDS / 2)
        client.declare()


def test_a_peer_that_wants_no_heartbeats_gets_none(broker: Broker):
    with RawClient(broker.host, broker.port) as client:
        client.open(beat=0)
        assert frames_until(client, time.monotonic() + 1.5 * INTERVAL_SECONDS) == []
        client.open_channel()


@pytest.mark.parametrize("signs_off", [True, False], ids=["close-ok", "silence"])
def test_a_graceful_stop_closes_connections_with_320(impatient_broker, signs_off: bool):
    broker = impatient_broker
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        client.declare()
        stopper = threading.Thread(target=broker.terminate)
        stopper.start()
        closed = client.expect(commands.Connection.Close)
        assert closed.reply_code == 320
        assert closed.reply_text.startswith("CONNECTION_FORCED")
        if signs_off:
            client.send(commands.Connection.CloseOk())
        client.wait_until_dropped(30)
        stopper.join()
    assert not broker.alive
    if not signs_off:
        assert "1 connections did not answer connection.close" in broker.log_text()


def test_a_graceful_stop_ends_the_process_with_status_zero(fresh_broker):
    assert fresh_broker().terminate() == 0


def test_a_stopped_broker_frees_its_data_and_its_port(fresh_broker):
    broker = fresh_broker()
    port = broker.port
    for _ in range(2):
        broker.restart()
        assert broker.port == port
        RawClient(broker.host, port).open().socket.close()


def test_a_peer_that_reads_a_large_message_slowly_is_kept(fresh_broker):
    size = 100 * 1024 * 1024
    broker = fresh_broker(ROUTELOG_MESSAGE_BYTES_MAX=str(size))
    with (
        RawClient(broker.host, broker.port) as publisher,
        RawClient(broker.host, broker.port) as reader,
    ):
        for client, beat in ((publisher, 0), (reader, INTERVAL_SECONDS)):
            client.open(beat=beat)
            client.open_channel()
        name = publisher.declare(exclusive=False, auto_delete=True)
        publisher.send(commands.Basic.Publish(routing_key=name), 1)
        publisher.send(header.ContentHeader(0, size, commands.Basic.Properties()), 1)
        piece = content_body(bytes(FRAME_BYTES_MAX - 8))
        whole, rest = divmod(size, FRAME_BYTES_MAX - 8)
        for _ in range(whole):
            publisher.send_bytes(piece)
        publisher.send_bytes(content_body(bytes(rest)))
        publisher.call(commands.Basic.Qos(), commands.Basic.QosOk)
        reader.call(commands.Basic.Consume(queue=name), commands.Basic.ConsumeOk)
        slow_until = time.monotonic() + 5 * INTERVAL_SECONDS
        left = size
        while left:
            _, frame = reader.receive()
            if isinstance(frame, body.ContentBody):
                left -= len(frame.value)
            reader.send(heartbeat.Heartbeat())
            if time.monotonic() < slow_until:
                time.sleep(0.3)
