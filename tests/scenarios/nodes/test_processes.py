"""A node of several processes: clients are served by whichever they meet, and it does not matter which."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from scenarios.nodes.process_family import PROCESSES, Family
from support.broker_process import BrokerFailed, BrokerProcess, is_there
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Inbox, drain, let_stop
from support.waiting import wait_until


def is_lost(connection: BlockingConnection) -> bool:
    """Whether the broker has closed a connection."""
    try:
        connection.process_data_events(time_limit=0.01)
    except pika.exceptions.AMQPConnectionError:
        return True
    return not connection.is_open


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    family = Family(tmp_path)
    yield family
    family.close()


def test_what_one_declares_all_route_at_once(family: Family) -> None:
    channels = {number: each.channel() for number, each in family.one_each().items()}
    for channel in channels.values():
        channel.confirm_delivery()
    for round_number in range(10):
        for declarer, channel in channels.items():
            name = f"q{round_number}-{declarer}"
            channel.queue_declare(name, durable=round_number % 2 == 0)
            channel.exchange_declare(name, "fanout")
            channel.queue_bind(name, name)
            for number, other in channels.items():  # raises if it is returned, or not confirmed
                other.basic_publish(name, "", b"%d" % number, PERSISTENT, mandatory=True)
            assert drain(channel, name) == [b"%d" % number for number in channels]
            channel.queue_delete(name)
            channel.exchange_delete(name)


def test_messages_go_from_any_process_to_any_other(family: Family) -> None:
    connections = family.one_each()
    publisher = connections[2].channel()
    publisher.queue_declare("q", durable=True)
    inboxes = [Inbox(each.channel(), "q", auto_ack=True) for each in connections.values()]
    publisher.confirm_delivery()
    for number in range(30):
        publisher.basic_publish("", "q", b"%d" % number, PERSISTENT, mandatory=True)
    wait_until(lambda: sum(len(inbox.bodies) for inbox in inboxes) >= 30, *connections.values())
    assert sorted(int(body) for inbox in inboxes for body in inbox.bodies) == [*range(30)]
    assert all(inbox.bodies for inbox in inboxes)


def test_an_exclusive_queue_is_its_connections_alone(family: Family) -> None:
    connections = family.one_each()
    connections[2].channel().queue_declare("own", exclusive=True)
    for number in (1, 3):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            connections[number].channel().queue_declare("own", passive=True)
        assert refused.value.reply_code == 405
    connections[2].close()
    for number in (1, 3):
        channel = connections[number].channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "own", b"to nobody", mandatory=True)


def test_direct_replies_find_their_process(family: Family) -> None:
    connections = family.one_each()
    connections[1].channel().queue_declare("requests")
    for server, asker in ((3, 2), (1, 3), (2, 1)):
        asks, answers = connections[asker].channel(), connections[server].channel()
        replies = Inbox(asks, "amq.rabbitmq.reply-to", auto_ack=True)
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        asks.basic_publish("", "requests", b"ask", properties)
        requests = Inbox(answers, "requests", auto_ack=True).wait_for(1)
        address = requests.deliveries[0][1].reply_to
        answers.basic_publish("", address, b"answer")
        replies.wait_for(1)
        answers.close()
        asks.close()


def test_the_death_of_one_process_is_its_clients_alone(family: Family) -> None:
    connections = family.one_each()
    inbox = Inbox(
        connections[3].channel(), connections[3].channel().queue_declare("q").method.queue
    )
    killed = family.pid(2)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: is_lost(connections[2]))
    wait_until(lambda: len(family.pids(2)) == 2)
    publisher = connections[1].channel()
    publisher.basic_publish("", "q", b"on")
    inbox.wait_for(1)
    again = family.one_each()  # the new one takes clients
    again[2].channel().basic_publish("", "q", b"again")
    inbox.wait_for(2)


def test_the_first_process_starts_again_without_deleted_users_and_with_a_broken_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "definitions.json"

    def write(**passwords: str) -> None:
        users = [
            {"name": name, "password": password, "tags": "administrator"}
            for name, password in passwords.items()
        ]
        file.write_text(json.dumps({"users": users, "vhosts": [{"name": "/"}]}))

    write(root="old", eve="eve")
    family = Family(tmp_path / "data", ROUTELOG_DEFINITIONS_FILE=str(file))
    try:
        door = ManagementDoor(family.broker, ("root", "old"))
        door.do("DELETE", "users", "eve")
        door.do("PUT", "users", "root", body={"password": "new", "tags": "administrator"})
        write(root="new")
        for _ in range(2):
            token = ManagementDoor(family.broker).token
            os.kill(family.pid(1), signal.SIGKILL)

            def is_back(before: str = token) -> bool:
                try:
                    return ManagementDoor(family.broker).token != before
                except FileNotFoundError:
                    return False

            wait_until(is_back)
            answers = [
                ManagementDoor(family.broker, each).ask("GET", "whoami")[0]
                for each in (("eve", "eve"), ("root", "old"), ("root", "new"))
            ]
            assert answers == [401, 401, 200]
            file.write_text("{")
        assert "goes on without the definitions of its file" in family.broker.log_text()
    finally:
        family.close()


def test_the_death_of_the_first_process_loses_and_doubles_nothing(family: Family) -> None:
    connections = family.one_each()
    publisher = connections[2].channel()
    publisher.queue_declare("q", durable=True)
    publisher.confirm_delivery()
    inbox = Inbox(connections[3].channel(), "q")
    confirmed, refused = [], []
    for number in range(300):
        if number == 100:
            os.kill(family.pid(1), signal.SIGKILL)
        body = b"%d" % number
        try:
            publisher.basic_publish("", "q", body, PERSISTENT, mandatory=True)
            confirmed.append(body)
        except pika.exceptions.NackError:  # it may be there
            refused.append(body)
    assert len(family.pids(1)) == 2
    assert len(confirmed) >= 200
    wait_until(lambda: set(confirmed) <= set(inbox.bodies), connections[3])
    for body in refused:
        confirmed += [body] * (body in inbox.bodies)
    # Marked, but for what was handed out just before the death.
    unmarked = Counter(body for deliver, _, body in inbox.deliveries if not deliver.redelivered)
    assert all(int(body) <= 100 for body, times in unmarked.items() if times > 1)
    assert set(inbox.bodies) == set(confirmed)
    assert connections[2].is_open
    assert connections[3].is_open
    inbox.channel.basic_ack(0, multiple=True)
    inbox.channel.close()
    wait_until(lambda: is_lost(connections[1]))
    assert set(drain(publisher, "q")) <= set(inbox.bodies)


def test_the_log_says_which_process_a_line_is_of(family: Family) -> None:
    found = re.findall(r"\[(\d)\]: listening for AMQP", family.broker.log_text())
    assert sorted(map(int, found)) == [*range(1, PROCESSES + 1)]


def test_all_end_in_order(family: Family) -> None:
    connections = [*family.one_each().values()]
    publisher = connections[0].channel()
    publisher.queue_declare("q", durable=True)
    publisher.basic_publish("", "q", b"kept", PERSISTENT)
    pids = [family.pid(number) for number in range(1, PROCESSES + 1)]
    statuses: list[int] = []
    let_stop(lambda: statuses.append(family.broker.terminate()), *connections)
    assert statuses == [0]
    assert not any(map(is_there, pids))
    assert not any(connection.is_open for connection in connections)
    assert "WARNING routelog.broker.sessions" not in family.broker.log_text()
    family.broker.start()
    assert drain(family.clients.channel(), "q") == [b"kept"]


ROUNDS = 3  # of an end, on the same data


def auto_delete_queues(family: Family) -> list[BlockingConnection]:
    """A durable auto-delete queue with a message and a consumer for each process; the connections."""
    connections = family.one_each()
    publisher = family.clients.channel()
    publisher.confirm_delivery()
    for number, connection in connections.items():
        channel = connection.channel()
        channel.queue_declare(f"q{number}", durable=True, auto_delete=True)
        publisher.basic_publish("", f"q{number}", b"kept", PERSISTENT)
        Inbox(channel, f"q{number}").wait_for(1)
    return [*connections.values(), publisher.connection]


def check_auto_delete_queues(family: Family) -> None:
    """All are there with their messages; they are deleted then."""
    channel = family.clients.channel()
    for number in range(1, PROCESSES + 1):
        assert drain(channel, f"q{number}") == [b"kept"]
        channel.queue_delete(f"q{number}")


def test_auto_delete_queues_stay_when_a_signal_reaches_all_processes(tmp_path: Path) -> None:
    family = Family(tmp_path, within=("setsid",))
    try:
        for _ in range(ROUNDS):
            connections = auto_delete_queues(family)
            let_stop(family.broker.terminate_group, *connections)
            assert "is started again" not in family.broker.log_text()
            family.broker.start()
            check_auto_delete_queues(family)
    finally:
        family.close()


def test_auto_delete_queues_stay_when_the_first_process_is_the_last_to_hear(
    family: Family,
) -> None:
    connections = auto_delete_queues(family)
    of_fronts = [each for each in connections if family.process_of(each) != 1]
    os.kill(family.pid(1), signal.SIGSTOP)
    family.broker.signal(signal.SIGTERM)
    wait_until(lambda: all(map(is_lost, of_fronts)))
    os.kill(family.pid(1), signal.SIGCONT)
    let_stop(family.broker.terminate, *connections)
    family.broker.start()
    check_auto_delete_queues(family)


def test_the_parent_alone_ends_processes(family: Family) -> None:
    connections = family.one_each()
    pids = [family.pid(number) for number in range(1, PROCESSES + 1)]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    publisher = connections[2].channel()
    publisher.queue_declare("q", durable=True)
    publisher.confirm_delivery()
    inbox = Inbox(connections[3].channel(), "q")
    publisher.basic_publish("", "q", b"on", PERSISTENT, mandatory=True)
    inbox.wait_for(1)
    assert not any(map(is_lost, connections.values()))
    assert [family.pid(number) for number in range(1, PROCESSES + 1)] == pids


def test_the_files_of_one_are_for_the_connections_of_all(tmp_path: Path) -> None:
    family = Family(tmp_path, within=("sh", "-c", 'ulimit -n 100 && exec "$@"', "sh"))
    try:
        said = re.findall(
            r"of 100 .* (\d+) are for AMQP in all processes", family.broker.log_text()
        )
        assert len(said) == PROCESSES
        for _ in range(int(said[0])):
            family.clients.connect()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            family.clients.connect()
    finally:
        family.close()


def test_no_process_outlives_its_parent(family: Family) -> None:
    family.broker.kill()
    pids = [family.pid(number) for number in range(1, PROCESSES + 1)]
    wait_until(lambda: not any(map(is_there, pids)))


def test_data_of_another_broker_are_refused_in_words(family: Family, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path, {"ROUTELOG_PROCESSES": "2"})
    with pytest.raises(BrokerFailed, match="ended before it was ready"):
        second.start()
    assert "another process holds" in second.log_text()
    assert "Traceback" not in second.log_text()
