import pytest

from routelog.vhosts.errors import InvalidUser
from routelog.vhosts.stored.user import TAGS_MAX, User


@pytest.mark.parametrize("name", ["a", "guest", "x" * 255, "é" * 127, "a/b %2F <b>", "\U0001f600"])
def test_names_of_printable_text_are_accepted(name: str) -> None:
    assert User(name, "").name == name


@pytest.mark.parametrize(
    "name", ["", "x" * 256, "é" * 128, "a\x00", "a\nb", "\x7f", "a\x85", "\ud800"]
)
def test_names_that_are_empty_long_or_unprintable_are_refused(name: str) -> None:
    with pytest.raises(InvalidUser):
        User(name, "")
    with pytest.raises(InvalidUser):
        User("fine", "", (name,))


def test_tags_are_limited() -> None:
    tags = [str(number) for number in range(TAGS_MAX + 1)]
    User("fine", "", tuple(tags[:TAGS_MAX]))
    with pytest.raises(InvalidUser):
        User("fine", "", tuple(tags))


def test_a_hash_is_ascii() -> None:
    with pytest.raises(InvalidUser):
        User("fine", "$argon2id$\udcff")


def test_the_password_hash_is_not_shown() -> None:
    user = User("fine", "the-secret-hash")
    assert "the-secret-hash" not in f"{user!r} {user}"
