"""A parent with processes that only wait; the first argument is how many, the second one what is the matter."""

from __future__ import annotations

import os
import signal
import sys
import time

from routelog.broker.listeners.listening_sockets import ListeningSockets
from routelog.broker.listeners.shared_page import SharedPage
from routelog.broker.process import processes
from routelog.broker.process.processes import TOLD_TO_END, Processes, ProcessPlace
from routelog.log_backend import SystemClock


def say(text: str) -> None:
    """One line, at once, whoever else writes."""
    os.write(1, f"{text}\n".encode())


def live(place: ProcessPlace) -> int:
    """Wait until a signal comes."""

    def told(number: int, _: object) -> None:
        say(f"{place.number} told {signal.Signals(number).name}")
        if number == TOLD_TO_END and f"{place.number} is deaf" not in sys.argv:
            raise SystemExit

    for number in (TOLD_TO_END, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, told)
    say(f"{place.number} lives {os.getpid()}")
    when = "fails later" if place.page.has_started else "fails"
    if f"{place.number} {when}" in sys.argv:
        return 1
    place.page.ready(place.number)
    try:
        while True:
            time.sleep(60)
    except SystemExit:
        while place.number == 2 and "2 is last" in sys.argv and place.page.process(1):
            time.sleep(0.01)
        say(f"{place.number} ends")
        return 0


def main() -> int:
    """Be the parent."""
    processes.RESTART_SECONDS_MIN = 0.1
    processes.END_SECONDS_MAX = 0.5 if "deaf" in " ".join(sys.argv) else 60.0
    page = SharedPage(int(sys.argv[1]))
    parent = Processes(
        page,
        ListeningSockets([], [], []),
        live,
        lambda: say("ready"),
        lambda: say("stopping"),
        SystemClock(),
    )
    return parent.run()


if __name__ == "__main__":
    sys.exit(main())
