"""Clients of brokers that a test starts."""

import pytest
from support.pika_client import Clients


@pytest.fixture
def client_of(request):
    """Opens a connection to a broker and closes it in the end."""

    def connect(broker):
        clients = Clients(broker.url)
        request.addfinalizer(clients.close)
        return clients.connect()

    return connect
