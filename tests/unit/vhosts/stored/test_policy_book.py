"""Which of several policies counts."""

from typing import Any, cast

import pytest

from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.errors import PolicyNotFound
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.stored.policy_record import policy_change


def policy(name: str, priority: int = 0, *, operator: bool = False) -> Policy:
    return Policy(name, "^q", {"max-length": 1}, priority, is_operator=operator)


@pytest.fixture
def book() -> PolicyBook:
    return PolicyBook("/", cast(Any, None))


def put(book: PolicyBook, *policies: Policy) -> None:
    for each in policies:
        book.apply(policy_change("/", each))


def remove(book: PolicyBook, policy: Policy) -> None:
    book.apply(policy_change("/", policy, deleted=True))


def test_the_highest_priority_counts_and_then_the_first_name(book: PolicyBook) -> None:
    put(book, policy("b"), policy("c", 1), policy("a"), policy("d", 1))
    assert book.of_queue("q", "classic") == (policy("c", 1), None)
    remove(book, policy("c", 1))
    remove(book, policy("d", 1))
    assert book.of_queue("q", "classic") == (policy("a"), None)
    assert book.of_queue("other", "classic") == (None, None)


def test_operators_have_names_of_their_own(book: PolicyBook) -> None:
    own, operators = policy("p"), policy("p", operator=True)
    put(book, own)
    put(book, operators)
    assert book.of_queue("q", "stream") == (own, operators)
    assert book.get("p", operator=True) == operators
    assert book.all(operator=False) == [own]
    assert len(book.deletions()) == 2
    remove(book, own)
    with pytest.raises(PolicyNotFound, match="no policy 'p' in vhost '/'"):
        book.get("p", operator=False)


def test_exchanges_have_policies_but_no_operators(book: PolicyBook) -> None:
    own = Policy("p", "", {"alternate-exchange": "x"})
    put(book, own)
    put(book, policy("o", 5, operator=True))
    assert book.of_exchange("anything") == own
