"""What ends a run: a broker that cannot be used, or one that lost, doubled or garbled something."""

from typing import Final

from pamqp import base, commands, exceptions, frame

EXIT_WRONG: Final = 1
EXIT_UNUSABLE: Final = 2


class RunFailed(Exception):
    """A run that gives no figure; the message says why, in one line.

    `exit_code` is `EXIT_WRONG` when the broker did wrong, `EXIT_UNUSABLE` when it could not be measured.
    """

    exit_code = EXIT_WRONG


class UnexpectedFrame(RunFailed):
    """The broker sent something that the run does not expect."""


class BrokerStalled(RunFailed):
    """Nothing moved for so long that the run was given up."""


class MessagesWrong(RunFailed):
    """A message was lost, doubled, or left behind."""


class BrokerRefused(RunFailed):
    """The broker said no, or went away: bad credentials, an unknown exchange type, a stop."""

    exit_code = EXIT_UNUSABLE


class BadRequest(RunFailed):
    """What was asked for makes no sense: a bad URI, or options that contradict each other."""

    exit_code = EXIT_UNUSABLE


def unexpected(where: str, data: bytes) -> RunFailed:
    """The error for bytes that do not belong there: `BrokerRefused` when they say why they came."""
    value = _first_frame(data)
    if isinstance(value, commands.Connection.Close | commands.Channel.Close):
        return BrokerRefused(f"the broker closed: {value.reply_code} {value.reply_text}")
    if not isinstance(value, base.Frame):
        named = data[:64].hex(" ") if value is None else value.name
        return UnexpectedFrame(f"unexpected bytes among the {where}: {named}")
    return UnexpectedFrame(f"unexpected bytes among the {where}: {value.name} {dict(value)}")


def _first_frame(data: bytes) -> frame.FrameTypes | None:
    try:
        return frame.unmarshal(data)[2]
    except exceptions.UnmarshalingException:
        return None
