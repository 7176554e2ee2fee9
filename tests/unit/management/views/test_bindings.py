"""Keys of bindings."""

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from routelog.exchanges import Binding
from routelog.management.views.bindings import exchange_name, properties_key


def key(routing_key: str, arguments: dict[str, object] | None = None) -> str:
    return properties_key(Binding("x", "q", "queue", routing_key, arguments or {}))


def test_keys_are_those_of_rabbitmq_where_there_are_no_arguments() -> None:
    assert key("") == "~"
    assert key("q1") == "q1"
    assert key("k.#") == "k.%23"
    assert key("a/b c") == "a%2Fb%20c"


def test_arguments_tell_bindings_apart_whatever_their_order() -> None:
    assert key("k", {"a": 1, "b": [b"x"]}) == key("k", {"b": [b"x"], "a": 1})
    assert key("k", {"a": 1}) != key("k", {"a": 2})
    assert key("", {"a": 1}).startswith("~")


@given(st.text(max_size=20))
def test_a_key_is_safe_in_a_path(routing_key: str) -> None:
    found = key(routing_key)
    assert found.isascii()
    assert not set(found) & set("/?#&= ")
    assert unquote(found) == (routing_key or "~")


def test_the_default_exchange_has_a_name_in_paths() -> None:
    assert exchange_name("amq.default") == ""
    assert exchange_name("amq.topic") == "amq.topic"
