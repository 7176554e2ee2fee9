"""`python -m routelog`: the command line."""

from routelog.amqp_front.__main__ import main

if __name__ == "__main__":
    main()
