"""Honest clients log in beside crowds that do not: each has an address of its own."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from scenarios.clients.raw_client import PROTOCOL_HEADER, RawClient, plain
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

CROWD = "127.0.0.2"
SILENT = 300  # more than there may be that have not logged in
LOGINS = 20

pytestmark = pytest.mark.differs_from_rabbitmq("its limits cannot be set from here")


@pytest.fixture
def patient(fresh_broker) -> BrokerProcess:
    """A broker that lets nobody go because of time."""
    return fresh_broker(ROUTELOG_HANDSHAKE_SECONDS="300")


def silent_crowd(stack: ExitStack, broker: BrokerProcess, said: bytes = b"") -> None:
    for _ in range(SILENT):
        source = (CROWD, 0)
        client = stack.enter_context(
            socket.create_connection((broker.host, broker.port), source_address=source)
        )
        client.sendall(said)


def log_in_often(broker: BrokerProcess, door: ManagementDoor) -> None:
    """Users whose passwords nobody has looked at yet."""
    for number in range(LOGINS):
        user = door.add_user(f"user{number}")
        with RawClient(broker.host, broker.port) as honest:
            honest.open(response=plain(*user))


def test_silent_sockets_drop_no_honest_login(patient):
    with ExitStack() as stack:
        silent_crowd(stack, patient)
        silent_crowd(stack, patient, PROTOCOL_HEADER)
        log_in_often(patient, ManagementDoor(patient))


@pytest.mark.parametrize("names", ["one name", "many names"])
def test_wrong_logins_delay_no_honest_one(patient, names: str):
    door = ManagementDoor(patient)
    with ExitStack() as stack:
        for number in range(SILENT):
            name = "eve" if names == "one name" else f"eve{number}"
            wrong = commands.Connection.StartOk({}, "PLAIN", plain(name, f"guess{number}"))
            client = stack.enter_context(
                socket.create_connection((patient.host, patient.port), source_address=(CROWD, 0))
            )
            client.sendall(PROTOCOL_HEADER + pamqp_frame.marshal(wrong, 0))
        log_in_often(patient, door)
