"""The two ways in which AMQP refuses: an exception on the connection, or on one channel.

Reply texts begin with the name of the code, as RabbitMQ's do, because clients match on it.

Source: AMQP 0-9-1 specification, section 1.2 (constants).
"""

CONTENT_TOO_LARGE = 311
NO_ROUTE = 312
CONNECTION_FORCED = 320
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NOT_IMPLEMENTED = 540
INTERNAL_ERROR = 541

CODE_NAMES = {code: name for name, code in list(vars().items()) if name.isupper()}

REPLY_TEXT_BYTES_MAX = 255  # a short string


def reply_text(code: int, reason: str) -> str:
    """`CODE_NAME - reason`, cut to what fits in a short string; a cut shows as `...`."""
    return short_text(f"{CODE_NAMES[code]} - {reason}")


def short_text(text: str) -> str:
    """A text, cut to what fits in a short string; a cut shows as `...`."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= REPLY_TEXT_BYTES_MAX:
        return encoded.decode()
    return encoded[: REPLY_TEXT_BYTES_MAX - 3].decode(errors="ignore") + "..."


class AmqpError(Exception):
    """A peer's mistake, or a refusal, that is answered with a reply code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reply_text(code, reason))
        self.code = code
        # It may quote a routing key, whose octets that are no UTF-8 are surrogates.
        self.reason = reason.encode(errors="replace").decode()


class HardError(AmqpError):
    """Closes the connection."""


class LoginRefused(HardError):
    """A login was refused; the text hides the cause, which is in the log."""


class SoftError(AmqpError):
    """Closes the channel; the connection goes on."""
