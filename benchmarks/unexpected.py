"""What ends a run: the broker said something else than the case expects, or nothing."""

from pamqp import exceptions, frame


class RunFailed(Exception):
    """A run that gives no figure; the message says why."""


class UnexpectedFrame(RunFailed):
    """The broker sent something that the case does not expect."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"unexpected bytes among the {where}: {what}")


class BrokerStalled(RunFailed):
    """Nothing moved for so long that the run was given up."""


def described(data: bytes) -> str:
    """The first frame of these bytes in words, or its bytes when it cannot be read."""
    try:
        _, channel, value = frame.unmarshal(data)
    except exceptions.UnmarshalingException:
        return data[:64].hex(" ")
    fields = dict(value) if hasattr(value, "__iter__") else {}
    return f"{value.name} on channel {channel} {fields}"
