"""A broker that waits for those who read its HTTP answers for a moment only: run as a program."""

from amqp_front.__main__ import main
from management import server

if __name__ == "__main__":
    server.STALL_SECONDS_MAX = 0.5
    main()
