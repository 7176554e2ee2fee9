"""A broker that waits for a moment only, until HTTP answers are read and clients leave: run as a program."""

from routelog.__main__ import main
from routelog.amqp_front.connections import connection
from routelog.amqp_front.server import open_connections
from routelog.broker.sockets import client_socket
from routelog.management.server import http_server

CLOSE_SECONDS = 2.0  # behind all that wait for less

if __name__ == "__main__":
    client_socket.CLOSE_SECONDS_MAX = CLOSE_SECONDS
    connection.CLOSE_SECONDS_MAX = CLOSE_SECONDS  # type: ignore[attr-defined]
    open_connections.STOP_SECONDS_MAX = 0.5
    http_server.STALL_SECONDS_MAX = 0.5
    main()
