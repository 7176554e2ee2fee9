"""What a test is told of a journal that advances."""

from collections.abc import Callable

from routelog.log_backend import Progress


def tell_durable(progress: Progress, told: Callable[[int], None]) -> None:
    """Call `told` with each position that becomes durable from now on, before whoever waits for it later."""

    def advanced() -> None:
        told(progress.durable)
        wait()

    def wait() -> None:
        progress.receipt(0, progress.durable + 1).when_covered(advanced)

    wait()
