"""A user: a name, a password hash, and tags that open parts of the HTTP API, or another's name."""

from dataclasses import dataclass, field

from routelog.vhosts.errors import InvalidUser

NAME_BYTES_MAX = 255  # a short string of AMQP
TAGS_MAX = 32  # RabbitMQ has five that mean something
ADMINISTRATOR = "administrator"
IMPERSONATOR = "impersonator"  # may publish with another's user-id


@dataclass(frozen=True, slots=True)
class User:
    """Who may log in.

    An empty `password_hash` belongs to a user that no password can authenticate.

    Raises:
        InvalidUser: the name or a tag is not 1 to 255 bytes of printable text, there are more
            than 32 tags, or the hash is not ASCII.
    """

    name: str
    password_hash: str = field(repr=False)  # kept out of logs
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_text("user name", self.name)
        if not self.password_hash.isascii():
            raise InvalidUser("the password hash is not ASCII")
        if len(self.tags) > TAGS_MAX:
            raise InvalidUser(f"more than {TAGS_MAX} tags")
        for tag in self.tags:
            _check_text("tag", tag)


def _check_text(what: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidUser(f"the {what} is not UTF-8") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise InvalidUser(f"the {what} has {size} bytes, not 1 to {NAME_BYTES_MAX}")
    if any(_is_control(character) for character in text):
        raise InvalidUser(f"the {what} has control characters")


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"
