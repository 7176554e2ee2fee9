"""A broker that waits for a moment only, until HTTP answers are read and connections end: run as a program."""

from amqp_front import client_socket
from amqp_front.__main__ import main
from management import server

if __name__ == "__main__":
    client_socket.CLOSE_SECONDS_MAX = 0.5
    server.STALL_SECONDS_MAX = 0.5
    main()
